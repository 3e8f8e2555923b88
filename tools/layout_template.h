/* layout_template.h - a first draft of a layout file from a checkpoint's tensor names (tally inspect --layout-template). */
#ifndef TALLY_LAYOUT_TEMPLATE_H
#define TALLY_LAYOUT_TEMPLATE_H

#include "weights/model.h"

/* Prints it: the layout in full where one is recognised, else what the names and shapes suggest, with a question wherever only the model's
 * author can know. Returns the exit status. */
int layout_template(checkpoint *c, const model_options *o);

#endif
