"""HTTP for every operation: access, bodies, formats, parameters, pages, errors."""
