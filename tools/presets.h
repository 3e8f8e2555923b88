/* presets.h - well-known shapes, one JSON file each in tools/presets/, embedded in the program. */
#ifndef TALLY_PRESETS_H
#define TALLY_PRESETS_H

#include <stdio.h>

#include "kernels/embedded.h"
#include "weights/config.h"

extern const embedded_file preset_files[];

/* The configuration of a preset; an unknown name is an error that says where the list is. */
status preset_load(model_config *c, const char *name, error *e);
/* A shape file: JSON as config_from_json takes it. Errors begin with the file's name. A path that begins with '{' is the text itself. */
status shape_load(model_config *c, const char *path, error *e);

#endif
