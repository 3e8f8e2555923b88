/* engine_private.h - what the files of engine/ share and nobody else needs. */
#ifndef TALLY_ENGINE_PRIVATE_H
#define TALLY_ENGINE_PRIVATE_H

#include "engine/engine.h"

/* [max_sequences], for engine_decode: a step allocates nothing. */
step_sequence *engine_decode_sequences(engine *e);

#endif
