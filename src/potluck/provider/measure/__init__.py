"""Measures the speed of devices with a short benchmark."""
