/* product = left × right, all of them square and SIZE wide, a multiple of 8. Each work item computes
   four rows of eight numbers, so that what it fetches is used many times before it is dropped. */

__kernel void multiply(
    __global const float *left, __global const float8 *right, __global float8 *product
) {
    const int column = get_global_id(0), row = get_global_id(1) * 4;
    float8 first = 0.0f, second = 0.0f, third = 0.0f, fourth = 0.0f;
    for (int step = 0; step < SIZE; step++) {
        const float8 across = right[step * (SIZE / 8) + column];
        first += left[row * SIZE + step] * across;
        second += left[(row + 1) * SIZE + step] * across;
        third += left[(row + 2) * SIZE + step] * across;
        fourth += left[(row + 3) * SIZE + step] * across;
    }
    product[row * (SIZE / 8) + column] = first;
    product[(row + 1) * (SIZE / 8) + column] = second;
    product[(row + 2) * (SIZE / 8) + column] = third;
    product[(row + 3) * (SIZE / 8) + column] = fourth;
}
