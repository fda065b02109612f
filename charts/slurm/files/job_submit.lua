-- slurmctld calls this before a job is made or changed (https://slurm.schedmd.com/job_submit_plugins.html). Placeholder jobs
-- may belong to people, who may change their own jobs. Without this script they could forge such a job, or change what its pods
-- rely on.
--
-- The scheduler sends the seal in the field `extra`, which is emptied here. A job with a valid seal gets its comment as admin
-- comment too, which its owner cannot write: the scheduler trusts only that. Jobs of the scheduler's own user are
-- recognised by their user.
--
-- A person whose jobs take a quarter of slurmctld's volume gets no more jobs once that volume is half full.
--
-- A job of people that asks for GPUs and names no memory or no cpus gets what these GPUs have of their node. Where Slurm has a
-- topology, ranks of a job of people follow it.
--
-- The site's own script, if there is one, is asked first about each job, and can refuse any. If a job stands for pods, that script
-- does not see the seal and cannot set what the pods rely on. Its changes to jobs of people are checked below like the jobs
-- themselves.

local OURS = "^k8s:"
-- ESLURM_ACCESS_DENIED, ESLURM_USER_ID_UNKNOWN
local DENIED, UNKNOWN_USER = 2002, 2166

local function output_of(pipe)
  local text = pipe:read("*a"):match("^%x+")
  pipe:close()
  return text
end

-- The seal, as sunkpy.slurm.auth makes it. The key is read once, because slurmctld reads it once as well.
local KEYED = "[ -s /etc/slurm/jwt.key ] && { cat /etc/slurm/jwt.key; printf 'sunkpy seal'; } | sha256sum"
local seal = output_of(io.popen(KEYED))
local slurm_user, scheduler = tonumber(output_of(io.popen("id -u"))), tonumber(output_of(io.popen("id -u k8s")))
assert(seal and slurm_user and scheduler, "no seal: cannot read /etc/slurm/jwt.key, or no user k8s")

-- What the pods of a job rely on. The job's owner, and operators, may still cancel, hold and release it, and change its time
-- limit, nice and begin. 24.11 does not show core_spec and thread_spec; what is not shown is nil.
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

-- The chart says whether there is a MailProg (slurmConfig.conf).
local SENDS_MAIL = false
local NO_MAIL = "no mail is sent here, so --mail-type does nothing"

-- slurmctld gives a step the addresses of its nodes by their place in the job. They stay as they were when a node leaves a job.
local RUNNING = 1
local KEEPS_NODES = "the nodes of a running job cannot be changed here: Slurm would send its later steps to wrong nodes"

local PODS_RELY_ON_IT = " of this job cannot be changed here: it stands for Kubernetes pods. Change or delete the pods"
local FORGED = "a comment that starts with k8s: says that a job stands for Kubernetes pods; write another comment"

-- slurmctld keeps the script and the environment of each batch job on its volume for as long as it knows the job. Slurm
-- bounds neither size nor number of environments: sbatch --export-file reads any. Slurm does not show this script their size, so
-- weigh-users looks at the files, and writes uid and bytes of each user who has too much.
local STATE = "/var/lib/slurm/state"
local HEAVY_USERS = STATE .. "/heavy-users"
local TOO_MUCH = "your jobs have %d MB of scripts and environments on slurmctld's volume, which is half full: "
  .. "cancel jobs, and try again after five minutes"

-- Return the bytes of a user who has too much there; nil for everybody else.
local function too_much_of(user)
  local file = io.open(HEAVY_USERS)
  if file == nil then return nil end
  local bytes = ("\n" .. (file:read("*a") or "")):match("\n" .. string.format("%d", user) .. " (%d+)\n")
  file:close()
  return tonumber(bytes)
end

-- In this file share-gpus keeps, for each partition, the cpus and MiB for each GPU.
local SHARES = STATE .. "/gpu-shares"
local ASK_GPUS = { "tres_per_job", "tres_per_node", "tres_per_socket", "tres_per_task" }

-- The chart says whether Slurm has a topology (topology.source). srun of 26.05 lays ranks along it by --distribution=block alone, and
-- inside of sbatch its default for one task on each node is cyclic, in the order in which nodes registered. For more tasks than
-- nodes its default is block.
local HAS_TOPOLOGY = false
local DISTRIBUTION = "SLURM_DISTRIBUTION"

local function lay_ranks_along_topology(job_desc)
  if not HAS_TOPOLOGY or job_desc.script == nil then return end -- only a batch job brings its environment
  if job_desc.environment[DISTRIBUTION] == nil then job_desc.environment[DISTRIBUTION] = "block" end
end

local function is_set(value) return value ~= nil and value ~= "" and not UNSET[value] end

local function asks_gpus(job_desc)
  for _, field in ipairs(ASK_GPUS) do
    if (job_desc[field] or ""):match("gres[:/]gpu") then return true end
  end
  return false
end

-- Return the least of the shares of the partitions that the job names and that have GPUs; 0 if none has.
local function shares_of(wanted)
  local cpus, memory = nil, nil
  local file = io.open(SHARES)
  if file == nil then return 0, 0 end
  for line in file:lines() do
    local name, of_cpus, of_memory = line:match("^(%S+) (%d+) (%d+)$")
    if name and ("," .. wanted .. ","):find("," .. name .. ",", 1, true) then
      cpus = math.min(cpus or math.huge, tonumber(of_cpus))
      memory = math.min(memory or math.huge, tonumber(of_memory))
    end
  end
  file:close()
  return cpus or 0, memory or 0
end

local function default_partition(partitions)
  for name, partition in pairs(partitions) do
    if partition.flag_default == 1 then return name end
  end
  return ""
end

-- Variables by which srun in a job sets the memory of its steps. A job that another job submits has the variables of that job. 0: all
-- memory of the job.
local MEMORY_OF_STEPS = { "SLURM_MEM_PER_CPU", "SLURM_MEM_PER_NODE" }

local function give_all_memory_to_steps(job_desc)
  if job_desc.script == nil or job_desc.environment == nil then return end -- only a batch job brings its environment
  for _, name in ipairs(MEMORY_OF_STEPS) do
    if job_desc.environment[name] ~= nil then job_desc.environment[name] = "0" end
  end
end

-- Ask as the job's owner would with --mem-per-gpu and --cpus-per-gpu.
local function give_share_of_gpus(job_desc, partitions)
  local names_memory = is_set(job_desc.min_mem_per_node) or is_set(job_desc.min_mem_per_cpu)
    or is_set(job_desc.mem_per_tres)
  local names_cpus = is_set(job_desc.cpus_per_task) or is_set(job_desc.cpus_per_tres) or is_set(job_desc.num_tasks)
    or is_set(job_desc.ntasks_per_node) or is_set(job_desc.ntasks_per_tres)
  if (names_memory and names_cpus) or not asks_gpus(job_desc) then return end
  local cpus, memory = shares_of(job_desc.partition or default_partition(partitions))
  if not names_memory and memory > 0 then
    job_desc.mem_per_tres = string.format("gres/gpu:%d", memory)
    give_all_memory_to_steps(job_desc)
  end
  if not names_cpus and cpus > 0 then job_desc.cpus_per_tres = string.format("gres/gpu:%d", cpus) end
end

local SITE_FILE, SITE_NAME = "/etc/slurm/site_job_submit.lua", "job_submit.lua of slurmConfig.files"
local SITE_FAILED = SITE_NAME .. " failed, so no job is taken: %s"

-- Load the site's script with globals of its own, so that it cannot change those of this script. If it cannot be read, or lacks a
-- function that slurmctld needs, slurmctld ends here. The check before an upgrade finds that, so a running slurmctld goes on.
local function load_site()
  local file = io.open(SITE_FILE)
  if file == nil then return nil end
  local text = file:read("*a")
  file:close()
  local globals = setmetatable({}, { __index = _G })
  globals._G = globals
  local chunk, problem
  if setfenv then -- Lua 5.1, which Debian's Slurm has
    chunk, problem = loadstring(text, "=" .. SITE_NAME)
    if chunk then setfenv(chunk, globals) end
  else
    chunk, problem = load(text, "=" .. SITE_NAME, "t", globals)
  end
  if chunk == nil then error(problem, 0) end
  local code = chunk()
  if code ~= nil and code ~= slurm.SUCCESS then
    error(SITE_NAME .. " returns " .. tostring(code) .. ", not slurm.SUCCESS", 0)
  end
  for _, name in ipairs({ "slurm_job_submit", "slurm_job_modify" }) do
    if type(rawget(globals, name)) ~= "function" then error(SITE_NAME .. " has no function " .. name, 0) end
  end
  return globals
end
local site = load_site()

local IS_KEPT = {}
for _, field in ipairs(KEPT) do IS_KEPT[field] = true end

-- Return a job that stands for pods, as the site's script may see and change it.
local function guarded(job_desc)
  return setmetatable({}, {
    __index = function(_, field)
      if field ~= "extra" then return job_desc[field] end
    end,
    __newindex = function(_, field, value)
      if not IS_KEPT[field] then job_desc[field] = value end
    end,
  })
end

local function ask_site(name, ...)
  if site == nil then return slurm.SUCCESS end
  local went_well, code = pcall(site[name], ...)
  if not went_well then
    slurm.log_error("%s", SITE_FAILED:format(tostring(code)))
    return refuse(DENIED, SITE_FAILED:format(tostring(code)))
  end
  return tonumber(code) or slurm.SUCCESS
end

function slurm_job_submit(job_desc, partitions, submit_uid)
  local is_sealed = job_desc.extra == seal
  local shown = (is_sealed or job_desc.user_id == scheduler) and guarded(job_desc) or job_desc
  local code = ask_site("slurm_job_submit", shown, partitions, submit_uid)
  if code ~= slurm.SUCCESS then return code end
  if not is_sealed then
    if job_desc.user_id ~= scheduler then
      if is_ours(job_desc.comment) or is_ours(job_desc.admin_comment) then return refuse(DENIED, FORGED) end
      local bytes = too_much_of(job_desc.user_id)
      if bytes then return refuse(DENIED, TOO_MUCH:format(bytes / 1e6)) end
      give_share_of_gpus(job_desc, partitions)
      lay_ranks_along_topology(job_desc)
    end
    if not SENDS_MAIL and job_desc.mail_type > 0 and not UNSET[job_desc.mail_type] then slurm.log_user("%s", NO_MAIL) end
    return slurm.SUCCESS
  end
  job_desc.extra = ""
  if job_desc.user_name == nil then
    return refuse(UNKNOWN_USER, "the user of these pods is not known where slurmctld runs")
  end
  job_desc.admin_comment = job_desc.comment
  return slurm.SUCCESS
end

function slurm_job_modify(job_desc, job_rec, partitions, modify_uid)
  local is_sealed = job_desc.extra == seal
  local is_for_pods = is_sealed or job_rec.user_id == scheduler or is_ours(job_rec.admin_comment)
  local shown = is_for_pods and guarded(job_desc) or job_desc
  local code = ask_site("slurm_job_modify", shown, job_rec, partitions, modify_uid)
  if code ~= slurm.SUCCESS then return code end
  if is_sealed then
    job_desc.extra = ""
    return slurm.SUCCESS
  end
  if modify_uid == 0 or modify_uid == slurm_user or job_rec.user_id == scheduler then return slurm.SUCCESS end
  if not is_ours(job_rec.admin_comment) then
    if is_ours(job_desc.comment) or is_ours(job_desc.admin_comment) then return refuse(DENIED, FORGED) end
    local wants_others = job_desc.req_nodes ~= nil or not UNSET[job_desc.min_nodes]
    if wants_others and job_rec.job_state % 256 == RUNNING then return refuse(DENIED, KEEPS_NODES) end
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
