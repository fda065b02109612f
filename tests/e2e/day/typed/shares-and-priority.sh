# source: NERSC, docs.nersc.gov/jobs/monitoring
# does: look at priority, fair share, associations and usage: `sprio`, `sshare -U`, `sacctmgr show assoc`, `sreport`
# says: Weights
# says: chem\|ann\|
# says: chem\|ann\|
# says: Cluster\|Account\|Login\|Used.*
sprio --weights --noheader | grep -o Weights
sshare -U --noheader --parsable --format=Account,User | tr -d ' '
sacctmgr --noheader --parsable show assoc where user=$USER format=account,user
sreport --parsable cluster UserUtilizationByAccount Users=$USER Format=Cluster,Account,Login,Used | grep Login
