! work SECONDS: an OpenMP team that computes; each region counts.
program work
    use omp_lib
    implicit none
    character(len=32) :: argument
    double precision :: seconds, begun, total
    integer :: i
    call get_command_argument(1, argument)
    read (argument, *) seconds
    write (*, '(a,i0)') 'cpus ', omp_get_num_procs()
    begun = omp_get_wtime()
    total = 0
    do while (omp_get_wtime() < begun + seconds)
        !$omp parallel do num_threads(2) reduction(+:total)
        do i = 1, 2000000
            total = total + 1d0 / i
        end do
    end do
    if (total < 0) write (*, *) total
end program work
