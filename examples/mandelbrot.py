"""A picture from many machines: each computes some rows of the Mandelbrot set, and they are
combined locally into mandelbrot.png.

python examples/mandelbrot.py                       (600 × 400, about 10 s on two cores)
python examples/mandelbrot.py 1200 800 deep.png

It prints `mandelbrot.png: 600 × 400, 14.1 % inside`. It uses only the standard library. On
a GPU, and much faster: `potluck run --template mandelbrot -o pictures`.
"""

import struct
import sys
import zlib
from pathlib import Path

import potluck

STEPS = 200


@potluck.task(ram="64MiB")
def row(top: float, left: float, pixel: float, width: int) -> bytes:
    """For each point of a row, the number of steps until it diverges; 0 for never."""
    counts = bytearray()
    for number in range(width):
        point, value = complex(left + pixel * number, top), 0j
        for step in range(STEPS):
            value = value * value + point
            if abs(value) > 2:
                counts.append(step + 1)
                break
        else:
            counts.append(0)
    return bytes(counts)


def main(width: int, height: int, picture: Path) -> None:
    pixel = 3.6 / width
    left, top = -2.5, pixel * height / 2
    tops = [top - pixel * number for number in range(height)]
    rows = []
    for computed in row.map(tops, [left] * height, [pixel] * height, [width] * height):
        rows.append(computed)
        if sys.stderr.isatty():
            print(f"\r{len(rows)} of {height} rows ", end="", file=sys.stderr, flush=True)
    picture.write_bytes(png(width, height, [coloured(each) for each in rows]))
    inside = sum(each.count(0) for each in rows) / width / height
    print(f"{picture}: {width} × {height}, {100 * inside:.1f} % inside")


def coloured(counts: bytes) -> bytes:
    """Black inside; outside from blue to gold by the number of steps."""
    return b"".join(
        bytes((0, 0, 0)) if count == 0 else bytes((min(255, 9 * count), min(220, 5 * count), 90))
        for count in counts
    )


def png(width: int, height: int, rows: list[bytes]) -> bytes:
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    pixels = zlib.compress(b"".join(b"\0" + each for each in rows))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in ((b"IHDR", header), (b"IDAT", pixels), (b"IEND", b""))
    )


if __name__ == "__main__":
    size = [int(word) for word in sys.argv[1:3]] or [600, 400]
    main(*size, Path(sys.argv[3] if sys.argv[3:] else "mandelbrot.png"))
