/* How fast each point of the plane escapes, as a colour between 0 and 1; 0 for those that stay.
   The count is smoothed, so that the picture has no steps. */

__kernel void mandelbrot(__global float *kept, float left, float top, float pixel, int steps) {
    const int column = get_global_id(0), row = get_global_id(1);
    const float c_x = left + column * pixel, c_y = top - row * pixel;
    float x = 0.0f, y = 0.0f;
    int step = 0;
    while (step < steps && x * x + y * y < 256.0f) {
        const float next = x * x - y * y + c_x;
        y = 2.0f * x * y + c_y;
        x = next;
        step++;
    }
    const float smooth = step - log2(log2(fmax(x * x + y * y, 4.0f)) / 2.0f);
    kept[row * get_global_size(0) + column] = step == steps ? 0.0f : fmax(smooth, 0.0f) + 1.0f;
}
