#!/bin/bash
# One command for this machine: a line of shell, then its standard input; its output, then its exit code.
IFS= read -r line
bash -c "$line" 2>&1
printf '\n%s' "$?"
