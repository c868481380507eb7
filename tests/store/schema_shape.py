"""What statements of an earlier server rely on in the schema, and whether it is still there."""

import re

import asyncpg
from msgspec import Struct

_COLUMNS = """
SELECT relname || '.' || attname AS name, relname AS of, format_type(atttypid, atttypmod) AS type,
    attnotnull AND NOT atthasdef AND attidentity = '' AND relkind = 'r' AS is_required
FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid
WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'v')
    AND attnum > 0 AND NOT attisdropped AND relname <> 'applied_migrations'
"""
_FUNCTIONS = """
SELECT format('%s(%s)', proname, pg_get_function_identity_arguments(oid)) AS name,
    pg_get_function_result(oid) AS result
FROM pg_proc WHERE pronamespace = 'public'::regnamespace
"""
_CONSTRAINTS = """
SELECT conname AS name, conrelid::regclass::text AS of, pg_get_constraintdef(oid) AS text,
    ARRAY(SELECT attname::text FROM pg_attribute
        WHERE attrelid = conrelid AND attnum = ANY(conkey)) AS columns
FROM pg_constraint WHERE connamespace = 'public'::regnamespace AND conrelid <> 0 AND contype <> 'n'
"""
_UNIQUE = """
SELECT indexrelid::regclass::text AS name, indrelid::regclass::text AS of,
    ARRAY(SELECT attname::text FROM pg_attribute
        WHERE attrelid = indrelid AND attnum = ANY(indkey::smallint[])) AS columns
FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
WHERE relnamespace = 'public'::regnamespace AND indisunique
    AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = indexrelid)
"""


class Shape(Struct, frozen=True):
    columns: dict[str, asyncpg.Record]
    functions: dict[str, asyncpg.Record]
    constraints: dict[str, asyncpg.Record]
    unique: dict[str, asyncpg.Record]

    def has_columns(self, rule: asyncpg.Record) -> bool:
        return all(f"{rule['of']}.{name}" in self.columns for name in rule["columns"])


async def read_shape(connection: asyncpg.Connection) -> Shape:
    queries = (_COLUMNS, _FUNCTIONS, _CONSTRAINTS, _UNIQUE)
    rows = [await connection.fetch(query) for query in queries]
    return Shape(*({row["name"]: row for row in rows_of_kind} for rows_of_kind in rows))


def list_broken(before: Shape, after: Shape) -> list[str]:
    """What an earlier server could not do any more, as sentences."""
    return [*_columns(before, after), *_functions(before, after), *_rules(before, after)]


def _columns(before: Shape, after: Shape) -> list[str]:
    broken = [f"{name} is gone" for name in before.columns if name not in after.columns]
    tables = {column["of"] for column in before.columns.values()}
    for name, column in after.columns.items():
        earlier = before.columns.get(name)
        if earlier is not None and earlier["type"] != column["type"]:
            broken.append(f"{name} has another type")
        was_required = earlier is not None and earlier["is_required"]
        if column["of"] in tables and column["is_required"] and not was_required:
            broken.append(f"{name} is required, and earlier servers do not write it")
    return broken


def _functions(before: Shape, after: Shape) -> list[str]:
    broken = [f"{name} is gone" for name in before.functions if name not in after.functions]
    for name, function in after.functions.items():
        earlier = before.functions.get(name)
        if earlier is not None and earlier["result"] != function["result"]:
            broken.append(f"{name} returns something else")
    return broken


def _rules(before: Shape, after: Shape) -> list[str]:
    """Constraints and unique indexes that refuse what earlier servers write."""
    broken = []
    for name, rule in after.constraints.items():
        earlier = before.constraints.get(name)
        if earlier is None and before.has_columns(rule) and rule["columns"]:
            broken.append(f"{rule['of']} has a new constraint {name} on columns that it had")
        if earlier is not None and not _texts(earlier["text"]) <= _texts(rule["text"]):
            broken.append(f"{name} allows less")
    for name, rule in after.unique.items():
        if name not in before.unique and before.has_columns(rule) and rule["columns"]:
            broken.append(f"{rule['of']} has a new unique index {name} on columns that it had")
    return broken


def _texts(definition: str) -> set[str]:
    return set(re.findall(r"'[^']*'", definition))
