"""Commands that are killed, run out of disk space or lose the right to write, and are repeated.

    python -m benchmarks.kills --kills 5 --seed 0                every command, five times per fault
    python -m benchmarks.kills --command train --fault kill --kills 100
    python -m benchmarks.kills --command train --fault kill --at 17      one case again

A command runs once without a fault. Then it runs in a new folder with a fault at a random moment,
and is repeated, or resumed, without the fault. `checks` compares the files with those of the
undisturbed run:

- After the fault, each file under a final name is complete, and none that was there is gone.
- A command that fails prints a message, no traceback, and has an exit status other than 0.
- After the repetition, the files equal those of the undisturbed run, and no others are left.

`commands` lists the commands, and `faults` runs one in a forked child with a fault.
"""
