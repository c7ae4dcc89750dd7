/* A program as bytes and back, for the plan cache. Integers are variable-length, so the form has no byte order and no
 * alignment. Bytes are untrusted: every count, index and enum is checked before it is used, so that what comes out can be
 * walked safely; whether it computes the right thing is for plan_verify to say. */
#ifndef SINEW_COMPILE_PROGRAM_BYTES_H
#define SINEW_COMPILE_PROGRAM_BYTES_H

#include "plan/program.h"

/* Goes up with every change of what the bytes mean, here or in the structs of step/ and plan/. */
enum { PROGRAM_BYTES_FORMAT = 2 };

/* Appends to out. */
sn_status program_write(const program *p, text *out) SN_MUST_USE;
/* The sizes of the program become expressions of `lowered`, the graph that it is for; bytes that fail leave that graph
 * as it was. SN_ERR_FORMAT for bytes that are not a program. */
sn_status program_read(const void *bytes, size_t size, sn_graph *lowered,
                       program **out_program) SN_MUST_USE;

/* "2*n+((n)/3)", as dim_print writes it, into a graph that has the symbols; false when it is not such text. (dim_text.c) */
bool dim_text_read(sn_graph *g, const char *text, sn_dim *out) SN_MUST_USE;

#endif
