"""Codes for the types that MessagePack lacks, and limits."""

BIG_INT = 1
TUPLE = 2
SET = 3
FROZENSET = 4
DATETIME = 5
DATE = 6
TIME = 7
TIMEDELTA = 8
DECIMAL = 9
UUID = 10
COMPLEX = 11
ARRAY = 12
SCALAR = 13
ARROW = 14

MOST_DEPTH = 64
SPARE_DEPTH = 24  # for the parts of an array
# Of all lists, sets and dicts in total: decoding needs up to 80 times as many bytes.
MOST_MEMBERS = 2**24
# Such numbers decode quickly; far longer ones are slow to print or multiply.
MOST_NUMBER_BYTES = 65_536
