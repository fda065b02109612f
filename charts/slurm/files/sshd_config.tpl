# sshd takes the first word on anything, so login.ssh.extra, which comes last, adds to what stands here. A Match block
# there could say otherwise; PAM would still refuse every password, and everybody below uid 1000.
Port 2222
PidFile /run/sshd.pid
AuthenticationMethods publickey
PubkeyAuthentication yes
PasswordAuthentication no
KbdInteractiveAuthentication no
HostbasedAuthentication no
PermitRootLogin no
PermitUserEnvironment no
PermitTunnel no
StrictModes yes
UsePAM yes
AuthorizedKeysCommand /usr/local/bin/ssh-keys-of %u
AuthorizedKeysCommandUser nobody
AuthorizedKeysFile {{ .Values.login.ssh.ownKeys | ternary ".ssh/authorized_keys" "none" }}
TrustedUserCAKeys none
# Names and greetings are those of the shell, by kubectl as well.
PrintMotd no
PrintLastLog no
UseDNS no
Subsystem sftp internal-sftp
# Behind a Service all people may seem to come from one address: nobody is shut out for what another one did.
PerSourcePenalties no
ClientAliveInterval 60
AcceptEnv LANG LC_*
{{- with .Values.login.ssh.extra }}
{{ . }}
{{- end }}
