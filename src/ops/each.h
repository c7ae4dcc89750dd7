/* Preprocessor: EACH(F, op, list) applies F(op, entry) to every entry of a list of ops.def. Entries are
 * tuples, each followed by a comma, and the list ends in the word END:  EACH(F, softmax, (int64_t,
 * axis), END). F gets the tuple's parts: F(op, int64_t, axis). */
#ifndef SINEW_OPS_EACH_H
#define SINEW_OPS_EACH_H

#define EACH_STRIP_(...)        __VA_ARGS__
#define EACH_CALL_(F, ...)      F(__VA_ARGS__)
#define EACH_ONE_(F, op, entry) EACH_CALL_(F, op, EACH_STRIP_ entry)
#define EACH_1_(F, op, end)
#define EACH_2_(F, op, e, ...)                                         EACH_ONE_(F, op, e) EACH_1_(F, op, __VA_ARGS__)
#define EACH_3_(F, op, e, ...)                                         EACH_ONE_(F, op, e) EACH_2_(F, op, __VA_ARGS__)
#define EACH_4_(F, op, e, ...)                                         EACH_ONE_(F, op, e) EACH_3_(F, op, __VA_ARGS__)
#define EACH_5_(F, op, e, ...)                                         EACH_ONE_(F, op, e) EACH_4_(F, op, __VA_ARGS__)
#define EACH_6_(F, op, e, ...)                                         EACH_ONE_(F, op, e) EACH_5_(F, op, __VA_ARGS__)
#define EACH_7_(F, op, e, ...)                                         EACH_ONE_(F, op, e) EACH_6_(F, op, __VA_ARGS__)
#define EACH_8_(F, op, e, ...)                                         EACH_ONE_(F, op, e) EACH_7_(F, op, __VA_ARGS__)
#define EACH_9_(F, op, e, ...)                                         EACH_ONE_(F, op, e) EACH_8_(F, op, __VA_ARGS__)
#define EACH_10_(F, op, e, ...)                                        EACH_ONE_(F, op, e) EACH_9_(F, op, __VA_ARGS__)
#define EACH_11_(F, op, e, ...)                                        EACH_ONE_(F, op, e) EACH_10_(F, op, __VA_ARGS__)
#define EACH_12_(F, op, e, ...)                                        EACH_ONE_(F, op, e) EACH_11_(F, op, __VA_ARGS__)
#define EACH_13_(F, op, e, ...)                                        EACH_ONE_(F, op, e) EACH_12_(F, op, __VA_ARGS__)
#define EACH_PICK_(a, b, c, d, e, f, g, h, i, j, k, l, m, chosen, ...) chosen
#define EACH(F, op, ...)                                                                     \
  EACH_PICK_(__VA_ARGS__, EACH_13_, EACH_12_, EACH_11_, EACH_10_, EACH_9_, EACH_8_, EACH_7_, \
             EACH_6_, EACH_5_, EACH_4_, EACH_3_, EACH_2_, EACH_1_, )                         \
  (F, op, __VA_ARGS__)

#endif
