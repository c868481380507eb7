"""`potluck top`: my tasks and the pool, full-screen."""
