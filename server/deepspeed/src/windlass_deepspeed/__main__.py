"""`python -m windlass_deepspeed`: how the processes of a tensor-parallel group are started."""

from windlass_deepspeed.cli import main

if __name__ == "__main__":
    main()
