from potluck.decide.old_plan import Plan, plan

__all__ = ["Plan", "plan"]
