/* Cooperative matrices of a GPU: of those that it lists, the shape in which products of f16 or bf16 are summed up in f32; and what is
 * known of their products. */
#include "device/vulkan/gpu.h"

#include <stdlib.h>

typedef int list_matrices(vk_handle physical, uint32_t *n, vk_matrix_properties *list);

static bool fits(const vk_matrix_properties *p, uint32_t factor) {
  return p->a == factor && p->b == factor && p->c == VK_MATRIX_F32 && p->result == VK_MATRIX_F32 &&
         p->scope == VK_SCOPE_SUBGROUP;
}

/* The largest shape that f16 and, where there is that at all, bf16 have. */
static void choose(gpu_target *t, const vk_matrix_properties *list, uint32_t n, bool bf16) {
  uint32_t best = 0;
  for (uint32_t i = 0; i < n; i++) {
    const vk_matrix_properties *p = &list[i];
    bool half = fits(p, VK_MATRIX_F16), also = false;
    for (uint32_t j = 0; j < n && half && bf16; j++)
      also = also || (fits(&list[j], VK_MATRIX_BF16) && list[j].m == p->m && list[j].n == p->n &&
                      list[j].k == p->k);
    uint32_t size = p->m * p->n * p->k * (also ? 2 : 1);
    if (!half || size <= best)
      continue;
    best = size;
    t->f16 = true;
    t->bf16 = also;
    t->matrix[0] = (int)p->m, t->matrix[1] = (int)p->n, t->matrix[2] = (int)p->k;
  }
}

void gpu_find_matrices(gpu *g, bool f16, bool bf16) {
  list_matrices *get;
  void *p = f16 ? loader_instance_call("vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR") : NULL;
  uint32_t n = 0;
  memcpy(&get, &p, sizeof p);
  if (!p || get(g->physical, &n, NULL) < 0 || n == 0)
    return;
  vk_matrix_properties *list = calloc(n, sizeof *list);
  for (uint32_t i = 0; list && i < n; i++)
    list[i].type = VK_MATRIX_PROPERTIES;
  if (list && get(g->physical, &n, list) >= 0)
    choose(&g->target, list, n, bf16);
  free(list);
}

/* --- proofs --- */

/* A word says which matrices it is about (sides are at most 64), by which test, and what came of it: two bits for f16, two for
 * bf16, two for the places of elements of each. */
enum { TRIAL_VERSION = 4, OF_F16 = 0, OF_BF16 = 2, OF_PLACES = 4, FOUND_BITS = 8 };
static const uint32_t FOUND = (UINT32_C(1) << FOUND_BITS) - 1;

static uint32_t key_of(const gpu *g) {
  const int *size = g->target.matrix;
  return ((uint32_t)size[0] << 25 | (uint32_t)size[1] << 18 | (uint32_t)size[2] << 11) +
         (TRIAL_VERSION << FOUND_BITS);
}

static matrix_proof get(const gpu *g, int of) {
  uint32_t word = atomic_load(&g->matrices);
  uint32_t found = (word & ~FOUND) == key_of(g) ? word >> of & 3 : MATRIX_UNTESTED;
  return found <= MATRIX_WRONG ? (matrix_proof)found : MATRIX_UNTESTED; /* it comes from a file */
}

/* Called by one thread at a time. */
static void set(gpu *g, int of, matrix_proof proof) {
  uint32_t word = atomic_load(&g->matrices), key = key_of(g);
  uint32_t found = (word & ~FOUND) == key ? word & FOUND & ~(UINT32_C(3) << of) : 0;
  atomic_store(&g->matrices, key | found | (uint32_t)proof << of);
}

static int bits_of(sn_dtype half) { return half == SN_BF16 ? OF_BF16 : OF_F16; }

matrix_proof gpu_matrix_proof(const gpu *g, sn_dtype half) { return get(g, bits_of(half)); }
void gpu_matrix_note(gpu *g, sn_dtype half, matrix_proof proof) { set(g, bits_of(half), proof); }
matrix_proof gpu_places_proof(const gpu *g, sn_dtype half) {
  return get(g, OF_PLACES + bits_of(half));
}
void gpu_places_note(gpu *g, sn_dtype half, matrix_proof proof) {
  set(g, OF_PLACES + bits_of(half), proof);
}
