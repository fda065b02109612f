# source: CSC, docs.csc.fi/computing/modules
# does: load environment modules from a folder of one's own (`module use`, `avail`, `load`), in the shell and in a job
# says: tool/1.0
# says: /opt/tool
# says: in a job /opt/tool
mkdir -p modules/tool
printf '%s\n' '#%Module1.0' 'setenv TOOL_HOME /opt/tool' > modules/tool/1.0
module use $PWD/modules
module --terse avail 2>&1 | grep tool/
module load tool/1.0
echo $TOOL_HOME
cat > uses.job <<END
#!/bin/bash -l
module use $PWD/modules
module load tool
echo in a job \$TOOL_HOME
END
env -u TOOL_HOME sbatch --wait --export=NONE --output=said uses.job > /dev/null
cat said
