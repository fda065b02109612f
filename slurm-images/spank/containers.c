/* srun, sbatch and salloc --container-image, with the other flags that users of Pyxis know.
 *
 *   plugstack.conf: optional /usr/local/lib/sunkpy_containers.so [cache=FOLDER] [folder=FOLDER]...
 *
 * Where people type flags, those that make no sense are refused. In slurmstepd run-image does all that is done, as the user:
 * it comes before the command of each task, and is called once more after the last. The only thing done as root is an empty
 * folder of the user, in one where nobody else makes files. The Epilog removes it.
 *
 * `required` would stop each slurmd whose image has no plugin yet. Slurm goes on where one that is `optional` fails: here a
 * process ends itself rather than run a task outside its container.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <slurm/spank.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

SPANK_PLUGIN(sunkpy_containers, 1)

#define RUN_IMAGE "/usr/local/bin/run-image"
#define FOLDER "/var/spool/slurmd/containers"
#define FAILED 125 /* as of run-container */
#define EXTERN_STEP 0xfffffffc
#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_"

enum { IMAGE, MOUNTS, WORKDIR, NAME, SAVE, ENV, HOME, ROOT, ENTRYPOINT, WRITABLE, KINDS };
static const char *const words[KINDS] = {"image", "mounts", "workdir", "name", "save", "env",
                                         "mount-home", "remap-root", "entrypoint", "writable"};
static char *given[KINDS]; /* a text, or yes or no */
static char box[64], step[16], command[256], trouble[512];
static uint32_t job, tasks;
static uid_t uid;
static gid_t gid;

#define YES(kind) (2 * (kind) + 1)
#define NO(kind) (2 * (kind))

static int set(int val, const char *text, int remote)
{
    int kind = val / 2;

    (void)remote;
    if (kind >= HOME)
        text = val % 2 ? "yes" : "no";
    if (!text || !*text) {
        slurm_error("--container-%s needs a value", words[kind]);
        return -1;
    }
    if (given[kind] && strcmp(given[kind], text)) { /* Slurm itself may say the same twice */
        if (kind >= HOME)
            slurm_error("--container-%s is given together with its opposite: keep one of the two", words[kind]);
        else
            slurm_error("--container-%s is given twice: %s and %s", words[kind], given[kind], text);
        return -1;
    }
    free(given[kind]);
    given[kind] = strdup(text);
    return given[kind] ? 0 : -1;
}

static struct spank_option options[] = {
    {"container-image", "[REGISTRY#]IMAGE[:TAG]|PATH", "run in a container of an image: of a registry, a squashfs file, "
     "or a folder of import-image", 1, YES(IMAGE), set},
    {"container-mounts", "SRC[:DST[:FLAGS]],...", "mount folders and files of the node in the container, with flags such as ro+nosuid; "
     "SRC tmpfs: an empty folder", 1, YES(MOUNTS), set},
    {"container-workdir", "PATH", "folder in which the command starts", 1, YES(WORKDIR), set},
    {"container-name", "NAME[:auto|create|exec]", "keep the container for further steps of the job on the node", 1,
     YES(NAME), set},
    {"container-save", "PATH", "at the end, save the container as a squashfs file", 1, YES(SAVE), set},
    {"container-env", "NAME,...", "variables that keep their value of the job where the image sets another", 1, YES(ENV), set},
    {"container-mount-home", NULL, "with /home, the default", 0, YES(HOME), set},
    {"no-container-mount-home", NULL, "without /home", 0, NO(HOME), set},
    {"container-remap-root", NULL, "appear as root in the container", 0, YES(ROOT), set},
    {"no-container-remap-root", NULL, "keep your own user in the container, the default", 0, NO(ROOT), set},
    {"container-entrypoint", NULL, "run the command by the image's entrypoint", 0, YES(ENTRYPOINT), set},
    {"no-container-entrypoint", NULL, "run the command itself, the default", 0, NO(ENTRYPOINT), set},
    {"container-writable", NULL, "the command may change files of the image, in a copy", 0, YES(WRITABLE), set},
    {"container-readonly", NULL, "the command may not change files of the image, the default without --container-name", 0, NO(WRITABLE), set},
    SPANK_OPTIONS_TABLE_END};

/* True if the word is in a list such as |a|b|. */
static int is_in(const char *list, const char *word)
{
    char *all = NULL;
    int found = asprintf(&all, "|%s|", word) >= 0 && !strchr(word, '|') && strstr(list, all);

    free(all);
    return found;
}

#define REFUSE(...) (slurm_error(__VA_ARGS__), exit(1))

/* Check one entry, SRC[:DST[:FLAGS]], and change the text meanwhile. */
static void check_mount(char *entry)
{
    char *from = strsep(&entry, ":"), *to = entry ? strsep(&entry, ":") : from, *flag;

    if (strcmp(from, "tmpfs") && *from != '/' && *from != '.')
        REFUSE("--container-mounts: %s is no path: SRC is /a/path, ./a/path or tmpfs", *from ? from : "an empty word");
    if (*to != '/' || !strcmp(to, "/") || strstr(to, ".."))
        REFUSE("--container-mounts: %s is no place in a container: DST is a path such as /data", *to ? to : "an empty word");
    while ((flag = strsep(&entry, "+")))
        if (!is_in("||ro|rw|nosuid|nodev|noexec|bind|rbind|private|rprivate|slave|rslave|x-create=dir|x-create=file|"
                   "x-create=auto|", flag))
            REFUSE("--container-mounts: flag %s of %s is not known: ro, rw, nosuid, nodev and noexec are", flag, from);
}

static void check(void)
{
    char *copy, *rest, *entry;
    int kind;

    for (kind = 0; kind < KINDS; kind++)
        if (given[kind] && !given[IMAGE] && !given[NAME])
            REFUSE("--container-%s needs --container-image, or --container-name", words[kind]);
    if (given[IMAGE] && !strncmp(given[IMAGE], "dockerd://", 10))
        REFUSE("--container-image: nodes have no Docker: push %s to a registry, or use import-image", given[IMAGE]);
    if (given[NAME]) {
        entry = given[NAME] + strspn(given[NAME], LETTERS ".-");
        if (entry == given[NAME] || !is_in("||:auto|:create|:exec|:no_exec|", entry))
            REFUSE("--container-name: %s: a name has letters, digits and ._-, and may end in :auto, :create or :exec",
                   given[NAME]);
        if (!strcmp(entry, ":create") && !given[IMAGE])
            REFUSE("--container-name: %s makes a new container: name its image by --container-image", given[NAME]);
        if (!strcmp(entry, ":exec") && given[IMAGE])
            REFUSE("--container-name: %s uses a container that exists already: leave --container-image out", given[NAME]);
    }
    if (given[WORKDIR] && *given[WORKDIR] != '/')
        REFUSE("--container-workdir: %s must begin with /", given[WORKDIR]);
    if (given[SAVE] && given[SAVE][strlen(given[SAVE]) - 1] == '/')
        REFUSE("--container-save: %s is a folder: name a file", given[SAVE]);
    if (given[ENV] && given[ENV][strspn(given[ENV], LETTERS ",")])
        REFUSE("--container-env: %s: names of variables, with commas between", given[ENV]);
    if (given[MOUNTS]) {
        for (copy = rest = strdup(given[MOUNTS]); (entry = strsep(&rest, ","));)
            check_mount(entry);
        free(copy);
    }
}

int slurm_spank_init(spank_t sp, int ac, char **av)
{
    struct spank_option *each;

    (void)ac, (void)av;
    for (each = options; each->name; each++)
        if (spank_option_register(sp, each) != ESPANK_SUCCESS)
            slurm_error("--%s belongs to another plugin of plugstack.conf as well", each->name);
    return 0;
}

/* As root. Only root can make, rename or remove entries of FOLDER, so nobody can lead mkdir and lchown elsewhere. */
static void make_box(void)
{
    struct stat is;

    snprintf(box, sizeof(box), FOLDER "/%u-images", job);
    if (!mkdir(box, 0700))
        removexattr(box, "system.posix_acl_default"); /* that of FOLDER, which is not for files of containers */
    else if (errno != EEXIST)
        snprintf(trouble, sizeof(trouble), "cannot make %s: %s", box, strerror(errno));
    if (*trouble)
        return;
    if (lstat(box, &is) || !S_ISDIR(is.st_mode) || (is.st_uid && is.st_uid != uid))
        snprintf(trouble, sizeof(trouble), "%s belongs to another user: an older job of this number left it", box);
    else if (!is.st_uid && lchown(box, uid, gid))
        snprintf(trouble, sizeof(trouble), "cannot give %s to its user: %s", box, strerror(errno));
}

int slurm_spank_init_post_opt(spank_t sp, int ac, char **av)
{
    spank_context_t where = spank_context();
    uint32_t number = 0;
    char **argv = NULL;
    int argc = 0;

    (void)ac, (void)av;
    if (where == S_CTX_LOCAL || where == S_CTX_ALLOCATOR)
        check();
    if (where != S_CTX_REMOTE || (!given[IMAGE] && !given[NAME]))
        return 0;
    if (spank_get_item(sp, S_JOB_UID, &uid) || spank_get_item(sp, S_JOB_GID, &gid) || spank_get_item(sp, S_JOB_ID, &job) ||
        spank_get_item(sp, S_JOB_STEPID, &number) || spank_get_item(sp, S_JOB_LOCAL_TASK_COUNT, &tasks)) {
        snprintf(trouble, sizeof(trouble), "Slurm does not say whose job this is");
        return 0;
    }
    if (number == EXTERN_STEP)
        return 0;
    snprintf(step, sizeof(step), "%u", number);
    /* Later it is what the node's PATH makes of it. */
    if (!spank_get_item(sp, S_JOB_ARGV, &argc, &argv) && argc && !strchr(argv[0], '/'))
        snprintf(command, sizeof(command), "%s", argv[0]);
    make_box();
    return 0;
}

/* The words of run-image for this step, with NULL after the last. */
static char **words_of(const char *task, int ac, char **av, int *count)
{
    char **argv = calloc(KINDS + ac + 8, sizeof(*argv));
    int kind, n = 0;

    argv[n++] = RUN_IMAGE;
    if (asprintf(&argv[n++], "box=%s", box) < 0 || asprintf(&argv[n++], "step=%s", step) < 0 ||
        asprintf(&argv[n++], "task=%s", task) < 0)
        _exit(FAILED);
    for (kind = 0; kind < ac; kind++)
        argv[n++] = av[kind];
    for (kind = 0; kind < KINDS; kind++)
        if (given[kind] && asprintf(&argv[n++], "%s=%s", words[kind], given[kind]) < 0)
            _exit(FAILED);
    argv[n++] = "--";
    *count = n;
    return argv;
}

/* In the process that becomes the task, as the user. */
int slurm_spank_task_init(spank_t sp, int ac, char **av)
{
    int count;
    char **argv;

    if (!*step && !*trouble)
        return 0;
    argv = words_of(command, ac, av, &count);
    if (!*trouble && spank_prepend_task_argv(sp, count, (const char **)argv))
        snprintf(trouble, sizeof(trouble), "Slurm does not take %s", RUN_IMAGE);
    if (*trouble) {
        slurm_error("no container: %s", trouble);
        _exit(FAILED);
    }
    return 0;
}

/* As root: call run-image as the user, and tell the user what it says. */
static void finish(spank_t sp, int ac, char **av)
{
    char *environment[] = {NULL, NULL}, **argv, *line = NULL;
    size_t size = 0;
    gid_t *groups = NULL;
    sigset_t none;
    int count = 0, said[2], length;
    FILE *lines;
    pid_t pid;

    argv = words_of(":end", ac, av, &length);
    if (spank_get_item(sp, S_JOB_SUPPLEMENTARY_GIDS, &groups, &count) || pipe2(said, O_CLOEXEC) ||
        asprintf(&environment[0], "SLURM_JOB_ID=%u", job) < 0 || (pid = fork()) < 0) {
        slurm_error("the container is not finished: %s", strerror(errno));
        return;
    }
    if (!pid) {
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL); /* slurmstepd blocks most, and lets the kernel kill anything else first */
        if ((lines = fopen("/proc/self/oom_score_adj", "w")) && fputs("0", lines) >= 0)
            fclose(lines);
        if (setgroups(count, groups) || setresgid(gid, gid, gid) || setresuid(uid, uid, uid) || chdir("/") ||
            dup2(said[1], 1) < 0 || dup2(said[1], 2) < 0 || close_range(3, ~0U, 0))
            _exit(FAILED);
        execve(RUN_IMAGE, argv, environment);
        _exit(FAILED);
    }
    close(said[1]);
    if ((lines = fdopen(said[0], "r")))
        while (getline(&line, &size, lines) > 0)
            slurm_spank_log("%.*s", (int)strcspn(line, "\n"), line);
    waitpid(pid, NULL, 0);
    free(line);
    if (lines)
        fclose(lines);
}

int slurm_spank_task_exit(spank_t sp, int ac, char **av)
{
    static uint32_t ended;
    int status = 0;
    int has_copy = given[WRITABLE] && !strcmp(given[WRITABLE], "yes") && !given[NAME];

    /* The container of a cancelled step is not saved, because Slurm would kill the program that saves it. */
    if (given[SAVE] && !spank_get_item(sp, S_TASK_EXIT_STATUS, &status) && WIFSIGNALED(status)) {
        slurm_spank_log("container: not saved: a task was ended by a signal");
        given[SAVE] = NULL;
    }
    if (*step && !*trouble && ++ended == tasks && (given[SAVE] || has_copy))
        finish(sp, ac, av);
    return 0;
}
