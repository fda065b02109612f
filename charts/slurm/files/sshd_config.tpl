{{- /* Of the login pods, and, with .compute, of the sshd beside slurmd. */ -}}
{{- $ssh := .Values.login.ssh -}}
{{- $forwarding := get (dict "all" "yes" "local" "local" "none" "no") $ssh.portForwarding -}}
{{- if regexMatch "(?im)^\\s*(allow(tcp|streamlocal)|x11)forwarding\\b" (regexSplit "(?im)^\\s*match\\b" $ssh.extra 2 | first) }}
{{- fail "login.ssh.extra: set forwarding by login.ssh.portForwarding and login.ssh.x11" }}
{{- end -}}
# sshd takes the first word on anything, so login.ssh.extra, which comes last, adds to what stands here. A Match block
# there could say otherwise; PAM would still refuse every password, and everybody below uid 1000.
Port {{ .compute | ternary 22 2222 }}
PidFile /run/sshd.pid
AuthenticationMethods publickey
PubkeyAuthentication yes
PasswordAuthentication no
KbdInteractiveAuthentication no
HostbasedAuthentication no
PermitRootLogin no
PermitUserEnvironment no
PermitTunnel no
GatewayPorts no
AllowTcpForwarding {{ $forwarding }}
AllowStreamLocalForwarding {{ $forwarding }}
X11Forwarding {{ $ssh.x11 | ternary "yes" "no" }}
StrictModes yes
UsePAM yes
AuthorizedKeysCommand /usr/local/bin/ssh-keys-of %u
AuthorizedKeysCommandUser nobody
AuthorizedKeysFile {{ $ssh.ownKeys | ternary ".ssh/authorized_keys" "none" }}
TrustedUserCAKeys none
# Names and greetings are those of the shell, by kubectl as well.
PrintMotd no
PrintLastLog no
UseDNS no
Subsystem sftp internal-sftp
# Behind a Service all people may seem to come from one address: nobody is shut out for what another one did.
PerSourcePenalties no
ClientAliveInterval 60
{{- if not .compute }}
{{- with $ssh.extra }}
{{ . }}
{{- end }}
{{- end }}
