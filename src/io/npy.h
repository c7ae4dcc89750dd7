/* What the files of the npy reader share. See sinew/npy.h for the meaning.
 *
 * Layout of a file: the bytes 93 "NUMPY", major and minor version, the length of the header (u16 in version 1, u32
 * in 2 and 3), the header (a Python dictionary: descr, fortran_order, shape), the elements.
 *
 * Invariant of an open file: the elements lie between `data` and the end of the file, and fill it.
 */
#ifndef SINEW_IO_NPY_H
#define SINEW_IO_NPY_H

#include <sinew/npy.h>

#include "base/file.h"

/* Longer headers are refused: shapes of eight sizes need some hundred bytes. */
enum { NPY_MAX_HEADER = 65535, NPY_MAX_DESCR = 16 };

/* How an element lies in the file. */
typedef struct npy_element {
  char kind; /* 'f', 'i', 'u' or 'b' */
  size_t size;
} npy_element;

struct sn_npy {
  sn_ctx *ctx;
  file_reader *file;
  sn_npy_array view;
  char descr[NPY_MAX_DESCR];
  npy_element element;
  bool fortran;  /* the first axis runs fastest */
  uint64_t data; /* where the elements begin */
};

/* The format from memory, which is borrowed until close: for tests and fuzzing. */
sn_status npy_open_bytes(sn_ctx *ctx, const void *bytes, size_t size,
                         sn_npy **out_file) SN_MUST_USE;

/* Reads and checks the header of npy->file (npy_header.c). */
sn_status npy_load_header(sn_npy *npy) SN_MUST_USE;

#endif
