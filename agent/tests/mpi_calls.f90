! Makes ten rounds of six calls that count, by the Fortran bindings: of `mpif.h` (F77), of the module `mpi`, or of the
! module `mpi_f08` (F08). It runs with two ranks.
program mpi_calls
#ifdef F08
    use mpi_f08
#elif !defined F77
    use mpi
#endif
    implicit none
#ifdef F77
    include 'mpif.h'
#endif
#ifdef F08
    type(mpi_request) :: requests(2)
#else
    integer :: requests(2)
#endif
    integer :: rank, other, round, error, total
    double precision :: sent(100), received(100)

    call mpi_init(error)
    call mpi_comm_rank(mpi_comm_world, rank, error)
    other = 1 - rank
    do round = 1, 10
        sent = rank + round
        received = 0
        call mpi_sendrecv(sent, 100, mpi_double_precision, other, 1, received, 100, mpi_double_precision, other, 1, &
                          mpi_comm_world, mpi_status_ignore, error)
        if (received(100) /= other + round) call mpi_abort(mpi_comm_world, 1, error)
        received = 0
        call mpi_irecv(received, 100, mpi_double_precision, other, 2, mpi_comm_world, requests(1), error)
        call mpi_isend(sent, 100, mpi_double_precision, other, 2, mpi_comm_world, requests(2), error)
        call mpi_waitall(2, requests, mpi_statuses_ignore, error)
        if (received(100) /= other + round) call mpi_abort(mpi_comm_world, 1, error)
        call mpi_allreduce(rank, total, 1, mpi_integer, mpi_sum, mpi_comm_world, error)
        if (total /= 1) call mpi_abort(mpi_comm_world, 1, error)
        call mpi_barrier(mpi_comm_world, error)
    end do
    call mpi_finalize(error)
end program
