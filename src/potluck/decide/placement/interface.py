"""Which node of those that have room."""


class Placement:
    pass
