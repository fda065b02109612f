-- slurmctld calls this before a job is made or changed (https://slurm.schedmd.com/job_submit_plugins.html). Placeholder jobs
-- belong to people, who may change their own jobs. Without this they could forge such a job, or change what its pods rely
-- on.
--
-- The scheduler sends the seal in the field `extra`, which is emptied here. A job with a valid seal gets its comment as admin
-- comment too, which its owner cannot write: the scheduler trusts only that. Jobs of the scheduler's own user are
-- recognised by their user.

local OURS = "^k8s:"
-- ESLURM_ACCESS_DENIED, ESLURM_USER_ID_UNKNOWN
local DENIED, UNKNOWN_USER = 2002, 2166

local function output_of(pipe)
  local text = pipe:read("*a"):match("^%x+")
  pipe:close()
  return text
end

-- As sunkpy.slurm.auth makes it. Read once: slurmctld reads its key once as well.
local KEYED = "[ -s /etc/slurm/jwt.key ] && { cat /etc/slurm/jwt.key; printf 'sunkpy seal'; } | sha256sum"
local seal = output_of(io.popen(KEYED))
local slurm_user, scheduler = tonumber(output_of(io.popen("id -u"))), tonumber(output_of(io.popen("id -u k8s")))
assert(seal and slurm_user and scheduler, "no seal: cannot read /etc/slurm/jwt.key, or no user k8s")

-- What the pods of a job rely on. Left to its owner, and to operators: to cancel, hold and release it, its time limit,
-- nice and begin. 24.11 does not show core_spec and thread_spec; what is not shown is nil.
local KEPT = {
  "account", "admin_comment", "comment", "contiguous", "core_spec", "cores_per_socket", "cpus_per_task",
  "cpus_per_tres", "dependency", "exc_nodes", "extra", "features", "gres", "licenses", "max_cpus", "max_nodes",
  "mem_per_tres", "min_cpus", "min_mem_per_cpu", "min_mem_per_node", "min_nodes", "name", "ntasks_per_node",
  "ntasks_per_socket", "ntasks_per_tres", "num_tasks", "partition", "pn_min_cpus", "pn_min_tmp_disk", "prefer", "qos",
  "req_nodes", "req_switch", "requeue", "reservation", "shared", "sockets_per_node", "std_err", "std_in", "std_out",
  "thread_spec", "threads_per_core", "tres_per_job", "tres_per_node", "tres_per_socket", "tres_per_task",
  "wait4switch", "wckey", "work_dir",
}
local UNSET = { [0xfffe] = true, [0xfffffffe] = true, [2 ^ 64 - 2] = true }

local function is_ours(text) return text ~= nil and text:match(OURS) ~= nil end

local function refuse(code, text)
  slurm.log_user("%s", text)
  return code
end

local PODS_RELY_ON_IT = " of this job cannot be changed here: it stands for Kubernetes pods. Change or delete the pods"
local FORGED = "a comment that starts with k8s: says that a job stands for Kubernetes pods; write another"

function slurm_job_submit(job_desc, _, _)
  if job_desc.extra ~= seal then
    if job_desc.user_id ~= scheduler and (is_ours(job_desc.comment) or is_ours(job_desc.admin_comment)) then
      return refuse(DENIED, FORGED)
    end
    return slurm.SUCCESS
  end
  job_desc.extra = ""
  if job_desc.user_name == nil then
    return refuse(UNKNOWN_USER, "the user of these pods is not known where slurmctld runs")
  end
  job_desc.admin_comment = job_desc.comment
  return slurm.SUCCESS
end

function slurm_job_modify(job_desc, job_rec, _, modify_uid)
  if job_desc.extra == seal then
    job_desc.extra = ""
    return slurm.SUCCESS
  end
  if modify_uid == 0 or modify_uid == slurm_user or job_rec.user_id == scheduler then return slurm.SUCCESS end
  if not is_ours(job_rec.admin_comment) then
    if is_ours(job_desc.comment) or is_ours(job_desc.admin_comment) then return refuse(DENIED, FORGED) end
    return slurm.SUCCESS
  end
  for _, field in ipairs(KEPT) do
    local value = job_desc[field]
    if value ~= nil and not UNSET[value] then
      return refuse(DENIED, field .. PODS_RELY_ON_IT)
    end
  end
  return slurm.SUCCESS
end

return slurm.SUCCESS
