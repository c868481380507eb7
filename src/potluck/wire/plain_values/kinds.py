"""How the types that MessagePack lacks are marked, and how much of anything there may be."""

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
SPARE_DEPTH = 24  # for what an array is made of
# Of all lists, sets and dicts together: reading takes up to 80 times as many bytes.
MOST_MEMBERS = 2**24
# Such numbers are read in no time; far longer ones take their time to be shown or multiplied.
MOST_NUMBER_BYTES = 65_536
