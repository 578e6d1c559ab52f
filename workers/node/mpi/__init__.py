"""OpenMPI's ranks on several nodes without ssh: what mpirun is told, and what starts its daemon and ranks on a node."""
