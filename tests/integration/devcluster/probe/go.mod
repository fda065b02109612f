module sunkpy.dev/probe

go 1.25
