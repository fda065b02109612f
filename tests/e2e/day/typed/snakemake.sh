# source: Snakemake, snakemake.github.io/snakemake-plugin-catalog/plugins/executor/slurm.html
# does: run a workflow with `snakemake --executor slurm`: each rule is a job
# needs: software
# newer: immutables, which Snakemake needs, has no wheel for Python 3.14
# limit: 240
# says: 1 ann
# says: 2 ann
cat > Snakefile <<'END'
rule all:
    input: "both"
rule both:
    input: expand("part-{n}", n=[1, 2])
    output: "both"
    shell: "cat {input} > {output}"
rule part:
    output: "part-{n}"
    shell: "echo {wildcards.n} $SLURM_JOB_USER > {output}"
END
. ~/software/env
snakemake --executor slurm --jobs 2 --default-resources slurm_partition=low runtime=5 mem_mb=100 --latency-wait 30 2> log > log || { cat log; exit 1; }
cat both
