/* The plan cache: programs in files of a folder, one a key. What is read is never trusted: program_bytes.c checks its form,
 * and compile.c proves it against the graph like any other program. A file that is not there, is broken or is of another
 * version is no error: the plan is made anew. */
#ifndef SINEW_COMPILE_CACHE_H
#define SINEW_COMPILE_CACHE_H

#include "compile/compile.h"

/* SN_ERR_NOT_FOUND unless the folder is one. */
sn_status cache_check(const char *folder, sn_ctx *ctx) SN_MUST_USE;
/* The name of the file for a graph, options and versions; equal names mean equal plans but for collisions, which the proof
 * finds. */
enum { CACHE_NAME = 64 };
sn_status cache_name(const sn_graph *graph, const compile_options *options,
                     char out[CACHE_NAME]) SN_MUST_USE;
/* *out_program is NULL when there is none that can be used. */
sn_status cache_load(const char *folder, const char *name, sn_graph *lowered,
                     program **out_program) SN_MUST_USE;
/* Written under another name and renamed, so that others never see half of it. */
sn_status cache_save(const char *folder, const char *name, const program *p,
                     sn_ctx *ctx) SN_MUST_USE;

#endif
