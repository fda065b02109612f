module sunkpy.dev/devcluster/pause

go 1.25
