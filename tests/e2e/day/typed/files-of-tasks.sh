# source: Slurm, slurm.schedmd.com/srun.html (IO redirection, filename pattern)
# does: give the tasks of a step an input file (`srun --input`) and each its own output file (`--output=outputs/%t.out`), in a folder that the script makes (`--chdir`)
# says: 0 read twig in inner
# says: 1 read twig in inner
mkdir inner; echo twig > inner/line
cat > each.job <<'END'
#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=1 --time=1 --chdir=inner --output=said
mkdir outputs
srun --input=line --output=outputs/%t.out bash -c 'read line; echo $SLURM_PROCID read $line in $(basename $PWD)'
END
sbatch --wait each.job > /dev/null
cat inner/outputs/0.out inner/outputs/1.out
