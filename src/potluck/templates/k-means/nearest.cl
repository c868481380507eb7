/* For each point the centre that is nearest, and how far it is, squared. */

__kernel void nearest(
    __global const float *points, __global const float *centres,
    __global uchar *chosen, __global float *distances
) {
    const size_t point = get_global_id(0);
    float best = INFINITY;
    int best_centre = 0;
    for (int centre = 0; centre < CLUSTERS; centre++) {
        float distance = 0.0f;
        for (int axis = 0; axis < DIMENSIONS; axis++) {
            const float away = points[point * DIMENSIONS + axis] - centres[centre * DIMENSIONS + axis];
            distance = fma(away, away, distance);
        }
        if (distance < best) {
            best = distance;
            best_centre = centre;
        }
    }
    chosen[point] = best_centre;
    distances[point] = best;
}
