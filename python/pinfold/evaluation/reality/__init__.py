"""The simulator's populations of regions beside a measured one."""
