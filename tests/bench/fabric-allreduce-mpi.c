/*
 * The peer of fabric-allreduce: MPI_Allreduce of FLOATS by all ranks, in place. Prints the median
 * of ROUNDS, each as long as the slowest rank took.
 *
 *     mpirun ... fabric-allreduce-mpi ROUNDS FLOATS
 */
#include "rounds.h"

#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	int rank;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	size_t rounds = (size_t)atoi(argv[1]), floats = (size_t)atoi(argv[2]);
	double *seconds = calloc(rounds + 1, sizeof *seconds);
	float *data = calloc(floats, sizeof *data);
	for (size_t i = 0; i <= rounds; i++) {
		MPI_Barrier(MPI_COMM_WORLD);
		double took = now();
		MPI_Allreduce(MPI_IN_PLACE, data, (int)floats, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
		took = now() - took;
		MPI_Allreduce(&took, &seconds[i], 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	}
	if (rank == 0)
		printf("%.6f\n", median(seconds + 1, rounds)); /* the first one warms up */
	MPI_Finalize();
	return 0;
}
