/* Cooperative matrices. Which elements a thread has, is the driver's choice: element e of a matrix (row by row) is the
 * (e / threads)-th of one of the subgroup's threads, another one with every order of threads. Where places are known
 * (device/vulkan/kernel_matrix.h), they are those. See spirv_vm_inner.h. */
#include "support/spirv_vm_inner.h"

enum { MATRIX_MOST = 256 * 256, USE_B = 1, PLACES_SIDE = 16, PLACES_THREADS = 32 };

static bool has_places(const vm *v, const vm_type *t, int n) {
  return !v->hides_places[t->encoding] && n == PLACES_THREADS && t->rows == PLACES_SIDE &&
         t->columns == PLACES_SIDE;
}

/* Thread 4 g + t: row g, then g + 8, each with columns 2 t, 2 t + 1, 2 t + 8, 2 t + 9; of b the other way round. */
static word *known_place(vm *v, vm_thread *first, uint32_t ref, const vm_type *t, uint32_t e) {
  uint32_t row = e / PLACES_SIDE, column = e % PLACES_SIDE;
  uint32_t one = t->use == USE_B ? column : row, four = t->use == USE_B ? row : column;
  uint32_t lane = 4 * (one % 8) + four % 8 / 2;
  return vm_at(v->m, &first[lane], ref) + 4 * (one / 8) + 2 * (four / 8) + four % 2;
}

static word *element(vm *v, vm_thread *first, int n, uint32_t ref, const vm_type *t, uint32_t e) {
  if (has_places(v, t, n))
    return known_place(v, first, ref, t, e);
  uint32_t lane = vm_ordered(v->job, e % (uint32_t)n, (uint32_t)n);
  return vm_at(v->m, &first[lane], ref) + e / (uint32_t)n;
}

/* --- memory --- */

typedef struct matrix_place {
  const vm_type *t;
  uint32_t storage, alignment, pointee_words, scalar_bytes;
  uint32_t bytes; /* of an element */
  word at, stride;
} matrix_place;

static bool same_everywhere(vm *v, vm_thread *first, int n, const vm_op *o) {
  for (int i = 1; i < n; i++)
    if (*vm_at(v->m, &first[i], o->a) != *vm_at(v->m, first, o->a) ||
        *vm_at(v->m, &first[i], o->b) != *vm_at(v->m, first, o->b))
      return vm_fault(v, &first[i], o, "pointer or stride differ within the subgroup");
  return true;
}

/* Pointer and stride are multiples of 16 bytes or of a whole line, whichever is less. */
static bool check_alignment(vm *v, vm_thread *t, const vm_op *o, const matrix_place *p) {
  uint32_t line = (o->c ? p->t->rows : p->t->columns) * p->bytes, to = line < 16 ? line : 16;
  word base = p->at;
  if (p->storage == STORE_WORKGROUP) {
    for (uint32_t i = 0; i < v->m->shared.n; i++) {
      const vm_input *s = &v->m->shared.at[i];
      if (p->at >= s->place && p->at < s->place + s->n)
        base = (p->at - s->place) * p->scalar_bytes;
    }
  } else if (base % p->alignment) {
    return vm_fault(v, t, o, "address %#lx is no multiple of %u", (unsigned long)base,
                    p->alignment);
  }
  word stride = p->stride * p->pointee_words * p->scalar_bytes;
  return (base % to == 0 && stride % to == 0) ||
         vm_fault(v, t, o, "byte %lu with a stride of %lu, no multiples of %u", (unsigned long)base,
                  (unsigned long)stride, to);
}

static bool move_shared(vm *v, vm_thread *t, const vm_op *o, const matrix_place *p, word byte,
                        bool load, word *x) {
  word at = p->at + byte / p->scalar_bytes;
  int shift = (int)(byte % p->scalar_bytes) * 8;
  word mask = (~(word)0 >> (64 - 8 * p->bytes)) << shift;
  if (p->bytes > p->scalar_bytes)
    return vm_fault(v, t, o, "elements larger than the scalars in memory");
  /* several elements may lie in a scalar: it is touched once */
  if (shift == 0 && !vm_touch_shared(v, t, o, at, 1, load ? VM_READ : VM_WRITE, false))
    return false;
  if (load)
    *x = (v->shared[at] & mask) >> shift;
  else
    v->shared[at] = (v->shared[at] & ~mask) | *x << shift;
  return true;
}

static bool move_buffer(vm *v, vm_thread *t, const vm_op *o, const matrix_place *p, word byte,
                        bool load, word *x) {
  int access = load ? VM_READ : VM_WRITE;
  unsigned char *data = vm_touch_buffer(v, t, o, p->at + byte, p->bytes, access, false);
  if (!data)
    return false;
  if (load)
    *x = 0;
  memcpy(load ? (void *)x : data, load ? (void *)data : x, p->bytes);
  return true;
}

/* Who touches what is open, so it is done by a thread that stands for all of the subgroup. */
static bool move(vm *v, vm_thread *first, int n, const vm_op *o, bool load) {
  const uint32_t *extra = v->m->extra.at + o->d;
  matrix_place p = {.t = vm_type_at(v->m, extra[0]),
                    .storage = extra[1],
                    .alignment = extra[2],
                    .pointee_words = extra[3],
                    .scalar_bytes = extra[4],
                    .at = *vm_at(v->m, first, o->a),
                    .stride = *vm_at(v->m, first, o->b)};
  p.bytes = (uint32_t)p.t->width / 8;
  vm_thread all = *first;
  all.number = (uint16_t)(BY_SUBGROUP + first->subgroup);
  if (!same_everywhere(v, first, n, o) || !check_alignment(v, first, o, &p))
    return false;
  uint32_t lines = o->c ? p.t->columns : p.t->rows, inside = o->c ? p.t->rows : p.t->columns;
  for (uint32_t i = 0; i < lines * inside; i++) {
    uint32_t line = i / inside, k = i % inside;
    word byte = (word)line * p.stride * p.pointee_words * p.scalar_bytes + k * p.bytes;
    word *x = element(v, first, n, o->dst, p.t, o->c ? k * p.t->columns + line : i);
    if (!(p.storage == STORE_WORKGROUP ? move_shared : move_buffer)(v, &all, o, &p, byte, load, x))
      return false;
  }
  return true;
}

/* --- products --- */

static void gather(vm *v, vm_thread *first, int n, uint32_t ref, const vm_type *t, float *out) {
  for (uint32_t e = 0; e < t->rows * t->columns; e++)
    out[e] = vm_float_of(*element(v, first, n, ref, t, e), (int)t->encoding);
}

static bool multiply(vm *v, vm_thread *first, int n, const vm_op *o) {
  static float a[MATRIX_MOST], b[MATRIX_MOST], c[MATRIX_MOST];
  const uint32_t *extra = v->m->extra.at + o->d;
  const vm_type *ta = vm_type_at(v->m, extra[0]), *tb = vm_type_at(v->m, extra[1]);
  const vm_type *tc = vm_type_at(v->m, extra[2]);
  gather(v, first, n, o->a, ta, a);
  gather(v, first, n, o->b, tb, b);
  gather(v, first, n, o->c, tc, c);
  for (uint32_t i = 0; i < tc->rows; i++)
    for (uint32_t k = 0; k < ta->columns; k++)
      for (uint32_t j = 0; j < tc->columns; j++)
        c[i * tc->columns + j] += a[i * ta->columns + k] * b[k * tb->columns + j];
  for (uint32_t e = 0; e < tc->rows * tc->columns; e++)
    *element(v, first, n, o->dst, tc, e) = vm_float_bits(c[e], (int)tc->encoding);
  return true;
}

bool vm_matrix_run(vm *v, vm_thread *first, int n, const vm_op *o) {
  if (n != v->subgroup)
    return vm_fault(v, first, o, "a matrix of a subgroup that is not full");
  if (o->code == VM_CooperativeMatrixMulAddKHR)
    return multiply(v, first, n, o);
  return move(v, first, n, o, o->code == VM_CooperativeMatrixLoadKHR);
}
