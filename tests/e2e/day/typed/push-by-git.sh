# source: Git, git-scm.com/docs/git-push
# does: push a repository with `git push` from the laptop to the home in the cluster, check it out there, and run it as a job
# at: laptop
# says: from a commit
git init -q -b main work && cd work
printf '#!/bin/bash\necho from a commit\n' > run.job
git add . && git -c user.name=ann -c user.email=ann@example.com commit -q -m first
ssh cluster "git init -q -b main --bare git.$$"
git push -q cluster:git.$$ main
ssh cluster "git clone -q git.$$ tree.$$; cd tree.$$; sbatch --wait --time=1 --output=said run.job > /dev/null; cat said; cd; rm -rf git.$$ tree.$$"
