{{- /* Of the login pods, and, with .compute, of the sshd beside slurmd. */ -}}
{{- $ssh := .Values.login.ssh -}}
{{- $forwarding := get (dict "all" "yes" "local" "local" "none" "no") $ssh.portForwarding -}}
{{- if regexMatch "(?im)^\\s*(allow(tcp|streamlocal)|x11)forwarding\\b" (regexSplit "(?im)^\\s*match\\b" $ssh.extra 2 | first) }}
{{- fail "login.ssh.extra: set forwarding by login.ssh.portForwarding and login.ssh.x11" }}
{{- end -}}
{{- $folder := .compute | ternary "/etc/sunkpy/sshd" "" -}}
{{- $ca := $ssh.existingCASecret | empty | ternary "config" "ca" | printf "%s/%s" $folder -}}
{{- $certificates := or $ssh.trustedUserCAKeys $ssh.existingCASecret -}}
{{- if and $ssh.existingCASecret (or $ssh.trustedUserCAKeys $ssh.revokedKeys) }}
{{- fail "login.ssh.existingCASecret: its files stand for trustedUserCAKeys and revokedKeys: leave these empty, and put their lines there" }}
{{- end }}
{{- if and $ssh.principals (not $certificates) }}
{{- fail "login.ssh.principals: only certificates have principals, and the values name no authority that signs certificates: set login.ssh.trustedUserCAKeys or login.ssh.existingCASecret" }}
{{- end }}
{{- if $ssh.onlyCertificates }}
{{- if not $certificates }}{{ fail "login.ssh.onlyCertificates: nobody could log in, because the values name no authority that signs certificates: set login.ssh.trustedUserCAKeys or login.ssh.existingCASecret" }}{{ end }}
{{- if $ssh.ownKeys }}{{ fail "login.ssh.onlyCertificates: login.ssh.ownKeys would let people in by keys of their own: set one of both" }}{{ end }}
{{- end -}}
# sshd takes the first word on anything, so login.ssh.extra, which comes last, adds to what stands here. A Match block
# there could say otherwise; PAM would still refuse every password, and everybody below uid 1000.
Port {{ .compute | ternary 22 2222 }}
PidFile /run/sshd.pid
{{- $asks := and $ssh.secondFactor (not .compute) | empty | not }}
AuthenticationMethods publickey{{ if $asks }},keyboard-interactive:pam{{ end }}
PubkeyAuthentication yes
PasswordAuthentication no
KbdInteractiveAuthentication {{ $asks | ternary "yes" "no" }}
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
AuthorizedKeysCommand {{ $ssh.onlyCertificates | ternary "/usr/bin/true" "/usr/local/bin/ssh-keys-of %u" }}
AuthorizedKeysCommandUser nobody
AuthorizedKeysFile {{ $ssh.ownKeys | ternary ".ssh/authorized_keys" "none" }}
TrustedUserCAKeys {{ $certificates | empty | ternary "none" (printf "%s/trusted_user_ca_keys" $ca) }}
{{- if $certificates }}
# The one number of the system that PAM would take for a person's.
DenyUsers nobody
{{- end }}
{{- if or $ssh.existingCASecret $ssh.revokedKeys }}
RevokedKeys {{ $ca }}/revoked_keys
{{- end }}
{{- if $ssh.principals }}
# Who is not in that file has their name alone.
AuthorizedPrincipalsCommand /usr/bin/awk 'BEGIN { user = ARGV[1]; ARGV[1] = "" } $1 == user { print $2; listed = 1 } END { if (!listed) print user }' %u {{ $folder }}/config/principals
AuthorizedPrincipalsCommandUser nobody
{{- end }}
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
