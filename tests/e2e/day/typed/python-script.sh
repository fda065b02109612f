# source: Slurm, slurm.schedmd.com/sbatch.html (any interpreter below `#!`)
# does: submit a Python script that has #SBATCH lines, with arguments; an option of the command line wins over the same option in the script
# says: renamed \['one', 'two words'\] 2
cat > analyse.py <<'END'
#!/usr/bin/env python3
#SBATCH --job-name=analyse
#SBATCH --time=1
#SBATCH --cpus-per-task=2
#SBATCH --output=said
import os, sys
print(os.environ["SLURM_JOB_NAME"], sys.argv[1:], os.environ["SLURM_CPUS_PER_TASK"])
END
sbatch --wait --job-name=renamed analyse.py one 'two words' > /dev/null
cat said
