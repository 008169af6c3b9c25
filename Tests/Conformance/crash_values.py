"""Values that say what they are: whose, which version, how long, and a checksum; torn or foreign bytes cannot hide.

A value is a row of pieces, because append and prepend add pieces to what is there. A piece is `<key:version:size:` +
size body bytes + `:crc32>`; the body is cut from one fixed random block at a place that the key and the version
choose, so the whole piece can be made again and compared byte for byte. A counter is a bare number.
"""

import random
import zlib

BLOCK = random.Random(20240229).randbytes(2 << 20)
# TTL classes: class n is n * 20,000 s, so the TTL left tells which touch or set it came from, for hours of testing.
TTL_STEP = 20000
TTL_CLASSES = 100


class Damaged(Exception):
    """Bytes that no client stored as they are; the text says how that shows."""


def flags_of(version):
    """The client flags stored with a version: spread over all 32 bits."""
    return version * 2654435761 & 0xFFFFFFFF


def piece(key, version, size):
    """The piece of a version with a body of `size` bytes."""
    start = (zlib.crc32(key) + version * 7919) % (len(BLOCK) - size)
    front = b"<%s:%d:%d:" % (key, version, size) + BLOCK[start : start + size]
    return front + b":%08x>" % zlib.crc32(front)


def piece_of_length(key, version, length):
    """The piece that is `length` bytes long in all, or the shortest there is."""
    overhead = len(piece(key, version, 0))
    size = max(0, length - overhead)
    # The digits of the size are part of the length.
    while size > 0 and len(b"%d" % size) - 1 + overhead + size > length:
        size -= 1
    return piece(key, version, size)


def parse(key, data):
    """The versions of the pieces in `data`; raises `Damaged` when a byte is not as it was stored."""
    versions = []
    position = 0
    while position < len(data):
        head_end = position
        for _ in range(3):
            head_end = data.find(b":", head_end, position + 300) + 1
            if head_end == 0:
                raise Damaged(f"no piece at byte {position} of {len(data)}: {data[position : position + 40]!r}")
        try:
            name, version, size = data[position + 1 : head_end - 1].split(b":")
            version, size = int(version), int(size)
        except ValueError:
            raise Damaged(f"bad head at byte {position} of {len(data)}: {data[position : position + 40]!r}") from None
        if name != key:
            raise Damaged(f"holds the value of {name!r}")
        end = head_end + size + 10
        if size > len(BLOCK) or data[position:end] != piece(key, version, size):
            raise Damaged(f"version {version} differs from what was stored ({size} bytes of body, {len(data)} in all)")
        versions.append(version)
        position = end
    return tuple(versions)
