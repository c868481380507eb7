/* 64 chains in each work item, so that a unit need not wait for its own last result. A step adds one
   to a chain; what is written at the end keeps the compiler from leaving any of it out. */

#define ADD_ONES                                                                \
    a = a * one + one; b = b * one + one; c = c * one + one; d = d * one + one; \
    e = e * one + one; f = f * one + one; g = g * one + one; h = h * one + one;

#define COUNT_STEPS(number, eight_numbers, four_numbers)               \
    const number one = kept == 0 ? 2 : 1;                              \
    eight_numbers a = 1, b = 1, c = 1, d = 1, e = 1, f = 1, g = 1, h = 1; \
    for (int step = 0; step < STEPS / 64; step++) { ADD_ONES }         \
    const eight_numbers together = a + b + c + d + e + f + g + h;      \
    const four_numbers sums = together.lo + together.hi;               \
    kept[get_global_id(0)] = sums.x + sums.y + sums.z + sums.w - 63;

__kernel void float_steps(__global float *kept) { COUNT_STEPS(float, float8, float4) }

__kernel void int_steps(__global int *kept) { COUNT_STEPS(int, int8, int4) }
