"""Background duties, one a file, each with a `run_once`. The leader alone does them."""
