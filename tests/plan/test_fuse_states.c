/* What fusion makes of states: what is prepared once, what is committed in place, what must be known before. The facts are
 * explained in plan_facts.h. */
#include "support/plan_facts.h"
#include "support/test.h"

#define MATMUL(id, a, b)  "%" id " = matmul(%" a ", %" b ") trans_a=false trans_b=false\n"
#define OUT(name, id)     "output \"" name "\" %" id "\n"
#define ASSIGN(state, id) "assign %" state " %" id "\n"

static const plan_case prepares[] = {
    {"what depends on weights alone",
     IN("1", "x", "f32", "[8, 4]")
         STATE("2", "w", "f32", "[4, 6]") "%3 = exp(%2)\n" MATMUL("4", "1", "3") OUT("y", "4"),
     "prepare pointwise; main matmul(1); prepared 1",
     {0},
     false},
    {"a chain of steps",
     IN("1", "x", "f32", "[8, 4]")
         STATE("2", "w", "f32", "[4, 4]") "%3 = softmax(%2) axis=1\n" MATMUL(
             "4", "3", "2") "%5 = exp(%4)\n" MATMUL("6", "1", "5") OUT("y", "6"),
     "prepare row/3 matmul(1); main matmul(1); prepared 2",
     {0},
     false},
    {"not where the state is assigned",
     IN("1", "x", "f32", "[8, 4]") STATE("2", "w", "f32", "[4, 6]") "%3 = exp(%2)\n" MATMUL(
         "4", "1", "3") "%5 = affine(%2) mul=0.5 add=0\n" OUT("y", "4") ASSIGN("2", "5"),
     "main pointwise matmul(1); commit pointwise; arena 1; in place 1",
     {0},
     false},
    {"not with sizes of a run",
     "symbol n 7\n" IN(
         "1", "x", "f32",
         "[n, 4]") "%2 = arange() dtype=i32 n=n start=0 step=1\n%3 = cast(%2) dtype=f32\n%4 = "
                   "sin(%3)\n%5 = reshape(%4) shape=[n, 1]\n%6 = mul(%1, %5)\n" OUT("y", "6"),
     "main pointwise",
     {0},
     false},
    {"not from an input",
     IN("1", "w", "f32", "[4, 6]")
         IN("2", "x", "f32", "[8, 4]") "%3 = exp(%1)\n" MATMUL("4", "2", "3") OUT("y", "4"),
     "main pointwise matmul(1); arena 1",
     {0},
     false},
    {"an output is made in each run",
     STATE("1", "w", "f32", "[4, 6]") "%2 = exp(%1)\n" OUT("y", "2"),
     "main pointwise",
     {0},
     false},
    {"a bare widening is not kept",
     IN("1", "x", "f32", "[4, 6]")
         STATE("2", "w", "f16", "[6]") "%3 = cast(%2) dtype=f32\n%4 = mul(%1, %3)\n" OUT("y", "4"),
     "main pointwise",
     {0},
     false},
};

static const plan_case commits[] = {
    {"a leaf",
     IN("1", "x", "f32", "[4]") STATE("2", "s", "f32", "[4]") ASSIGN("2", "1"),
     "commit pointwise; in place 1",
     {0},
     false},
    {"itself",
     STATE("2", "s", "f32", "[4]") ASSIGN("2", "2"),
     "commit pointwise; in place 1",
     {0},
     false},
    {"a swap",
     STATE("1", "s", "f32", "[4]") STATE("2", "t", "f32", "[4]") ASSIGN("1", "2") ASSIGN("2", "1"),
     "main pointwise pointwise; commit pointwise*2; arena 2; in place 2",
     {0},
     false},
    {"a round of three",
     STATE("1", "s", "f32", "[4]") STATE("2", "t", "f32", "[4]") STATE("3", "u", "f32", "[4]")
         ASSIGN("1", "2") ASSIGN("2", "3") ASSIGN("3", "1"),
     "main pointwise pointwise pointwise; commit pointwise*3; arena 3; in place 3",
     {0},
     false},
    {"from what stays",
     STATE("1", "s", "f32", "[4]") STATE("2", "t", "f32", "[4]") ASSIGN("1", "2"),
     "commit pointwise; in place 1",
     {0},
     false},
    {"a crosswise update",
     STATE("1", "s", "f32", "[4]") STATE(
         "2", "t", "f32", "[4]") "%3 = exp(%2)\n%4 = exp(%1)\n" ASSIGN("1", "3") ASSIGN("2", "4"),
     "main pointwise*2; commit pointwise*2; arena 2; in place 2",
     {0},
     false},
    {"an element by itself",
     STATE("1", "s", "f32", "[4]") "%2 = exp(%1)\n" ASSIGN("1", "2"),
     "commit pointwise; in place 1",
     {0},
     false},
    {"backwards: not over itself",
     STATE("1", "s", "f32", "[6]") "%2 = flip(%1) axes=[0]\n" ASSIGN("1", "2"),
     "main pointwise; commit pointwise; arena 1; in place 1",
     {0},
     false},
    {"transposed: not over itself",
     STATE("1", "s", "f32", "[6, 6]") "%2 = transpose(%1) perm=[1, 0]\n%3 = exp(%2)\n" ASSIGN("1",
                                                                                              "3"),
     "main pointwise; commit pointwise; arena 1; in place 1",
     {0},
     false},
    {"backwards for another",
     STATE("1", "s", "f32", "[6]")
         STATE("2", "t", "f32",
               "[6]") "%3 = flip(%1) axes=[0]\n%4 = add(%2, %3)\n%5 = sqr(%1)\n" ASSIGN("2", "4")
             ASSIGN("1", "5"),
     "main pointwise; commit pointwise*2; arena 2; in place 2",
     {0},
     false},
    {"descent: all updates are one step",
     IN("1", "g", "f32", "[4, 6]") IN("2", "h", "f32", "[9]") STATE("3", "w", "f32", "[4, 6]")
         STATE("4", "v", "f32", "[9]") "%5 = sub(%3, %1)\n%6 = sub(%4, %2)\n" ASSIGN("3", "5")
             ASSIGN("4", "6"),
     "commit pointwise*2; in place 2",
     {0},
     false},
    {"moments and weights in one part",
     IN("1", "g", "f32", "[4, 6]") STATE("2", "w", "f32", "[4, 6]") STATE("3", "m", "f32", "[4, 6]")
         STATE(
             "4", "v", "f32",
             "[4, 6]") "%5 = affine(%3) mul=0.9 add=0\n%6 = affine(%1) mul=0.1 add=0\n%7 = add(%5, "
                       "%6)\n%8 = affine(%4) mul=0.99 add=0\n%9 = sqr(%1)\n%10 = affine(%9) "
                       "mul=0.01 add=0\n%11 = add(%8, %10)\n%12 = sqrt(%11)\n%13 = affine(%12) "
                       "mul=1 add=1e-8\n%14 = div(%7, %13)\n%15 = sub(%2, %14)\n" ASSIGN("2", "15")
                           ASSIGN("3", "7") ASSIGN("4", "11"),
     "commit pointwise; in place 3",
     {0},
     false},
    {"a value that is an output too",
     IN("1", "x", "f32", "[4]") STATE("2", "s", "f32", "[4]") "%3 = add(%1, %2)\n" OUT("y", "3")
         ASSIGN("2", "3"),
     "main pointwise; commit pointwise; in place 1",
     {0},
     false},
    {"one value for two states",
     IN("1", "x", "f32", "[4]") STATE("2", "s", "f32", "[4]")
         STATE("3", "t", "f32", "[4]") "%4 = exp(%1)\n" ASSIGN("2", "4") ASSIGN("3", "4"),
     "main pointwise; commit pointwise*2; arena 1; in place 2",
     {0},
     false},
    {"the old value is an output",
     STATE("1", "s", "f32", "[4]") "%2 = exp(%1)\n" OUT("old", "1") ASSIGN("1", "2"),
     "main pointwise; commit pointwise; in place 1",
     {0},
     false},
    {"of a contraction",
     IN("1", "x", "f32", "[4, 4]") STATE("2", "s", "f32", "[4, 4]") MATMUL("3", "1", "2")
         ASSIGN("2", "3"),
     "main matmul(1); commit pointwise; arena 1; in place 1",
     {0},
     false},
    {"a scalar counter",
     STATE("1", "step", "i32", "[]") "%2 = affine(%1) mul=1 add=1\n" ASSIGN("1", "2"),
     "commit pointwise; in place 1",
     {0},
     false},
};

#define CACHE                                                                                   \
  "symbol n 5\n" STATE("1", "cache", "f32", "[2, 2, 8, 4]") IN("2", "k", "f32", "[2, 2, n, 4]") \
      IN("3", "at", "i32", "[]") "%4 = update_slice(%1, %2, %3) axis=2\n"
#define ATTEND                                                                                   \
  "%5 = attention(%2, %4, %4, none, none, none, none) scale=0.5 softcap=0 causal=none window=0 " \
  "layout=bhsd\n"

static const plan_case updates[] = {
    {"a cache in place, attention behind it",
     CACHE ATTEND OUT("y", "5") ASSIGN("1", "4"),
     "main pointwise; commit pointwise attention; in place 1; after 1",
     {0},
     false},
    {"two names of what comes behind it",
     CACHE ATTEND OUT("y", "5") OUT("again", "5") ASSIGN("1", "4"),
     "main pointwise; commit pointwise attention pointwise; in place 1; after 1",
     {0},
     false},
    {"nothing behind it",
     CACHE ASSIGN("1", "4"),
     "main pointwise; commit pointwise; in place 1; after 1",
     {0},
     false},
    {"the old cache is read elsewhere",
     CACHE "%7 = sum(%1) axes=[2] keepdims=false\n" ATTEND OUT("y", "5") OUT("old", "7")
         ASSIGN("1", "4"),
     "main row/1 pointwise pointwise*2 attention; commit pointwise; arena 2; in place 2; after 1",
     {0},
     false},
    {"a check depends on it",
     CACHE
     "%7 = slice(%4) axis=0 start=0 stop=1 step=1\n%8 = reshape(%7) shape=[64]\n%9 = cast(%8) "
     "dtype=i32\n%10 = arange() dtype=f32 n=9 start=0 step=1\n%11 = gather(%10, %9)\n" OUT(
         "y", "11") ASSIGN("1", "4"),
     "main pointwise pointwise*2 pointwise*2; commit pointwise; arena 2; in place 2; after 1",
     {0},
     false},
    {"a watched output depends on it",
     CACHE ATTEND OUT("y", "5") ASSIGN("1", "4"),
     "main pointwise pointwise*2 attention; commit pointwise; arena 2; in place 2; after 1",
     {.watched = "y"},
     false},
    {"another output is watched",
     CACHE ATTEND "%7 = exp(%2)\n" OUT("y", "5") OUT("z", "7") ASSIGN("1", "4"),
     "main pointwise*2; commit pointwise attention; in place 1; after 1",
     {.watched = "z"},
     false},
    {"the new cache is an output",
     CACHE OUT("y", "4") ASSIGN("1", "4"),
     "main pointwise pointwise*2; commit pointwise; in place 2; after 1",
     {0},
     false},
    {"of an input: a copy",
     IN("1", "x", "f32", "[8, 4]") IN("2", "v", "f32", "[2, 4]")
         IN("3", "at", "i32", "[]") "%4 = update_slice(%1, %2, %3) axis=0\n" OUT("y", "4"),
     "main pointwise pointwise*2; in place 1; after 1",
     {0},
     false},
    {"of what dies: in place",
     IN("1", "x", "f32", "[8, 4]") IN("2", "v", "f32", "[2, 4]")
         IN("3", "at", "i32", "[]") "%5 = sort(%1) axis=0 descending=false\n%4 = update_slice(%5, "
                                    "%2, %3) axis=0\n" OUT("y", "4"),
     "main sort pointwise*2; in place 1; after 1",
     {0},
     false},
    {"copies of bases do not wait for what ends the run",
     "symbol n 7\n" STATE("1", "a", "f32", "[16, 6]") STATE("2", "i", "i32", "[]")
         IN("3", "x", "f32",
            "[n, 6]") "%4 = update_slice(%1, %3, %2) axis=0\n%5 = slice_at(%4, %2) axis=0 "
                      "size=n\n" STATE("6", "b", "f32", "[16, 6]")
                          IN("7", "at", "i32",
                             "[]") "%8 = update_slice(%6, %5, %7) axis=0\n%9 = matmul(%5, %8) "
                                   "trans_a=false trans_b=true\n" STATE("10", "c", "f32", "[16, 6]")
                                       STATE("11", "j", "i32",
                                             "[]") "%12 = update_slice(%10, %5, %11) axis=0\n%13 = "
                                                   "add(%10, %12)\n" OUT("y", "9") ASSIGN("1", "4")
                                                       ASSIGN("10", "13"),
     "main pointwise pointwise pointwise*2; commit pointwise pointwise pointwise pointwise*2 "
     "matmul(1) pointwise; arena 4; in place 3; after 2",
     {0},
     false},
};

static const plan_case waits[] = {
    {"a barrier waits without reading",
     IN("1", "x", "f32", "[8, 8]") STATE("2", "w", "f32", "[8, 4]") MATMUL(
         "3", "1", "2") "%4 = barrier(%1, %3) id=0\n%5 = exp(%4)\n" OUT("y", "3") OUT("z", "5"),
     "main matmul(1) pointwise; after 1",
     {0},
     false},
    {"a segment is computed again after the gradient came",
     IN("1", "x", "f32", "[16, 8]") STATE("2", "v", "f32", "[8, 8]")
         STATE("3", "w", "f32", "[8, 8]")
             MATMUL("4", "1", "2") "%5 = sin(%4)\nrecompute %5\n" MATMUL(
                 "6", "5", "3") "%7 = sin(%6)\nrecompute %7\n%8 = sqr(%7)\n%9 = sum(%8) axes=[] "
                                "keepdims=false\n" OUT("loss", "9"),
     "main matmul(1) matmul(1) row/1 matmul(1) matmul(1)*2 matmul(1) matmul(1); commit "
     "pointwise*2; arena 7; in place 2; after 2",
     {0},
     true},
    {"without marks it is kept",
     IN("1", "x", "f32", "[16, 8]") STATE("2", "v", "f32", "[8, 8]")
         STATE("3", "w", "f32", "[8, 8]") MATMUL("4", "1", "2") "%5 = sin(%4)\n" MATMUL(
             "6", "5",
             "3") "%7 = sin(%6)\n%8 = sqr(%7)\n%9 = sum(%8) axes=[] keepdims=false\n" OUT("loss",
                                                                                          "9"),
     "main matmul(1) matmul(1) row/1 matmul(1)*2 matmul(1); commit pointwise*2; arena 7; in place "
     "2",
     {0},
     true},
};

static void check_all(const plan_case *cases, size_t n) {
  for (size_t k = 0; k < n; k++)
    if (test_begin("%s", cases[k].name)) {
      plan_case_check(&cases[k]);
      test_end();
    }
}

TEST_WALK(prepares) { check_all(prepares, COUNT_OF(prepares)); }
TEST_WALK(commits) { check_all(commits, COUNT_OF(commits)); }
TEST_WALK(updates) { check_all(updates, COUNT_OF(updates)); }
TEST_WALK(waits) { check_all(waits, COUNT_OF(waits)); }
