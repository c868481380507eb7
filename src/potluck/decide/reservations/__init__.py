"""Forecasts, and capacity reserved for tasks that waited long. The entry module is `reserve`."""
