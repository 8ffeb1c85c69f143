"""Faults from outside on the programs that write files: kills, interrupts, full disks, torn files, second writers."""
