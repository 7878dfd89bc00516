/* The plugin for Slurm: `srun --pinfold[=POLICY] ./a.out` runs each task under pinfold. docs/guide/jobs.md describes it
 * for users and sites, and docs/design/slurm.md explains its design.
 *
 * In slurm_spank_task_init, which runs in the task's process as the job's user, it forks. The new process continues
 * Slurm's work for the task, waits for pinfold in between, and executes the program. The task's process executes
 * pinfold, which is then the parent of the program (crates/linux/src/launch/waiting.rs).
 *
 * The plugin never fails a job: it reports a problem in one sentence, and the task runs as without pinfold.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0 */

#define _GNU_SOURCE /* pipe2 and others */
#include <slurm/slurm.h>
#include <slurm/spank.h>

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

SPANK_PLUGIN(pinfold, 1)

/* The message from pinfold is a few variables. */
#define LONGEST_MESSAGE (1 << 20)
/* As many nodes as Linux can have: 1024. */
#define NODE_WORDS 16

/* The settings in plugstack.conf. */
struct site {
	const char *binary;
	const char *policy;  /* for `--pinfold` without a value */
	const char *allowed; /* policies separated by commas; NULL for all */
	const char *records; /* a folder; NULL for none */
	bool denied;
	const char *mistake; /* an unknown argument */
};

static int option_given(int value, const char *word, int remote);

static struct spank_option option = {
	.name = "pinfold",
	.arginfo = "POLICY",
	.usage = "place the threads of each task with pinfold; POLICY is one of `pinfold run --policy help`, or off",
	.has_arg = 2,
	.cb = option_given,
};

/* The option's value in srun, sbatch or salloc; empty for none. */
static bool given;
static char given_word[SPANK_OPTION_MAXLEN];

static int option_given(int value, const char *word, int remote)
{
	(void)value;
	if (remote)
		return 0;
	given = true;
	snprintf(given_word, sizeof given_word, "%s", word ? word : "");
	return 0;
}

static struct site read_site(int count, char *arguments[])
{
	struct site site = {.binary = "/usr/bin/pinfold", .policy = "auto"};
	for (int i = 0; i < count; i++) {
		const char *one = arguments[i];
		if (strncmp(one, "binary=/", 8) == 0)
			site.binary = one + strlen("binary=");
		else if (strncmp(one, "policy=", 7) == 0)
			site.policy = one + strlen("policy=");
		else if (strncmp(one, "allowed=", 8) == 0)
			site.allowed = one + strlen("allowed=");
		else if (strncmp(one, "records=/", 9) == 0)
			site.records = one + strlen("records=");
		else if (strcmp(one, "deny") == 0)
			site.denied = true;
		else
			site.mistake = one;
	}
	return site;
}

static bool is_in_list(const char *word, const char *list)
{
	size_t length = strlen(word);
	for (const char *at = list; at; at = strchr(at, ',')) {
		at += *at == ',';
		if (strncmp(at, word, length) == 0 && (at[length] == ',' || at[length] == '\0'))
			return true;
	}
	return false;
}

/* Whether `word` can be the name of a policy: it becomes a part of a command line. */
static bool is_policy(const char *word)
{
	size_t length = strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:_-");
	return length > 0 && word[length] == '\0' && word[0] != '-';
}

/* The policy to use. NULL for no pinfold, with the reason in `why`. It is empty if the user has chosen `off`. */
static const char *policy_of(const struct site *site, const char *word, char *why, size_t size)
{
	const char *policy = word && *word ? word : site->policy;
	*why = '\0';
	if (strcmp(policy, "off") == 0)
		return NULL;
	if (site->mistake) {
		/* It may be a misspelt `deny`. */
		snprintf(why, size, "plugstack.conf has the unknown argument `%s` for pinfold; the arguments are binary=/FILE, "
			 "policy=NAME, allowed=NAME,NAME, records=/FOLDER and deny; ask the administrator to correct it",
			 site->mistake);
	} else if (site->denied) {
		snprintf(why, size, "this site does not allow --pinfold (deny in plugstack.conf); omit it");
	} else if (!is_policy(policy)) {
		snprintf(why, size, "--pinfold=%s: a policy is one word; `pinfold run --policy help` lists them", policy);
	} else if (site->allowed && !is_in_list(policy, site->allowed)) {
		snprintf(why, size, "--pinfold=%s: this site allows %s (allowed in plugstack.conf); use one of these", policy,
			 site->allowed);
	}
	return *why ? NULL : policy;
}

int slurm_spank_init(spank_t spank, int count, char *arguments[])
{
	(void)count;
	(void)arguments;
	spank_context_t context = spank_context();
	if (context == S_CTX_LOCAL || context == S_CTX_ALLOCATOR || context == S_CTX_REMOTE)
		spank_option_register(spank, &option);
	return 0;
}

/* Runs in srun, sbatch or salloc: the user sees at once why pinfold will not be used. */
int slurm_spank_init_post_opt(spank_t spank, int count, char *arguments[])
{
	(void)spank;
	spank_context_t context = spank_context();
	if (!given || (context != S_CTX_LOCAL && context != S_CTX_ALLOCATOR))
		return 0;
	struct site site = read_site(count, arguments);
	char why[512];
	if (!policy_of(&site, given_word, why, sizeof why) && *why)
		slurm_spank_log("pinfold: %s; the job runs without pinfold", why);
	return 0;
}

/* A sentence on the task's standard error. */
__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
	char text[1024];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	dprintf(STDERR_FILENO, "pinfold: %s\n", text);
}

/* set_mempolicy(2) with `MODE BITS WORD…`. If the kernel refuses it, pages are placed as without pinfold. */
static void set_memory_policy(char *text)
{
	unsigned long words[NODE_WORDS] = {0};
	char *at = text;
	long mode = strtol(at, &at, 10);
	unsigned long bits = strtoul(at, &at, 10);
	for (int i = 0; i < NODE_WORDS && *at; i++)
		words[i] = strtoul(at, &at, 16);
	if (bits <= 8 * sizeof words + 1)
		syscall(SYS_set_mempolicy, (int)mode, bits ? words : NULL, bits);
}

/* Applies one of pinfold's changes. Returns false at the last. */
static bool apply(spank_t spank, char *change)
{
	char *value = strchr(change, '=');
	switch (change[0]) {
	case '+':
		if (value) {
			*value = '\0';
			spank_setenv(spank, change + 1, value + 1, 1);
		}
		return true;
	case '-':
		spank_unsetenv(spank, change + 1);
		return true;
	case 'm':
		set_memory_policy(change + 1);
		return true;
	default:
		return false;
	}
}

/* Waits until pinfold is ready, and applies its changes. Without an answer pinfold has ended, and the task with it. */
static void await_pinfold(spank_t spank, int socket)
{
	size_t size = 0, used = 0, done = 0;
	char *message = NULL;
	while (true) {
		if (used == size) {
			size = size ? 2 * size : 4096;
			char *larger = size <= LONGEST_MESSAGE ? realloc(message, size) : NULL;
			if (!larger)
				_exit(EXIT_FAILURE);
			message = larger;
		}
		ssize_t got = read(socket, message + used, size - used);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			_exit(EXIT_FAILURE);
		used += (size_t)got;
		char *end;
		while ((end = memchr(message + done, '\0', used - done))) {
			char *change = message + done;
			done = (size_t)(end - message) + 1;
			if (!apply(spank, change)) {
				free(message);
				return;
			}
		}
	}
}

/* Whether the binary runs and has this plugin's version: only that version supports this start. After its exec in the
 * task's process, it is too late to run the task without it. */
static bool is_our_pinfold(const char *binary, char *why, size_t size)
{
	const char *wanted = "pinfold " PINFOLD_VERSION "\n";
	int ends[2];
	if (pipe2(ends, O_CLOEXEC) < 0) {
		snprintf(why, size, "cannot create a pipe (%s)", strerror(errno));
		return false;
	}
	pid_t child = fork();
	if (child == 0) {
		char *words[] = {"pinfold", "--version", NULL}, *none[] = {NULL};
		dup2(ends[1], STDOUT_FILENO);
		execve(binary, words, none);
		_exit(errno & 0x7f);
	}
	int error = errno, status = 0;
	close(ends[1]);
	char text[64] = "";
	size_t used = 0;
	ssize_t got;
	while (used < sizeof text - 1 && ((got = read(ends[0], text + used, sizeof text - 1 - used)) > 0 ||
					  (got < 0 && errno == EINTR)))
		used += got > 0 ? (size_t)got : 0;
	close(ends[0]);
	while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	if (child < 0)
		snprintf(why, size, "cannot fork (%s)", strerror(error));
	else if (WIFEXITED(status) && WEXITSTATUS(status) && !used)
		snprintf(why, size, "%s cannot be executed (%s); set binary=/FILE in plugstack.conf", binary,
			 strerror(WEXITSTATUS(status)));
	else if (strcmp(text, wanted) != 0)
		snprintf(why, size, "%s is not pinfold " PINFOLD_VERSION ", which this plugin was built with; install both "
			 "from one version", binary);
	else
		return true;
	return false;
}

/* The command line of pinfold, and its environment: the job's, and the waiting child. */
static char **command_line(const struct site *site, const char *policy, char *name, char *record, int count,
			   char **program)
{
	char **words = calloc((size_t)count + 10, sizeof *words);
	if (!words)
		return NULL;
	size_t at = 0;
	words[at++] = (char *)site->binary;
	words[at++] = "run";
	words[at++] = "--policy";
	words[at++] = (char *)policy;
	words[at++] = "--account-as";
	words[at++] = name;
	if (*record) {
		words[at++] = "--json";
		words[at++] = record;
	}
	words[at++] = "--";
	memcpy(words + at, program, (size_t)count * sizeof *words);
	return words;
}

static char **with_variable(char **environment, char *variable)
{
	size_t count = 0;
	while (environment && environment[count])
		count++;
	char **all = calloc(count + 2, sizeof *all);
	if (!all)
		return NULL;
	if (count > 0)
		memcpy(all, environment, count * sizeof *all);
	all[count] = variable;
	return all;
}

/* Returns in the process that will execute the program. The other process has become pinfold. */
static void split(spank_t spank, const struct site *site, const char *policy)
{
	uint32_t job = 0, step = 0, task = 0;
	int count = 0;
	char **program = NULL, **environment = NULL;
	spank_get_item(spank, S_JOB_ID, &job);
	spank_get_item(spank, S_JOB_STEPID, &step);
	spank_get_item(spank, S_TASK_GLOBAL_ID, &task);
	spank_get_item(spank, S_JOB_ENV, &environment);
	if (spank_get_item(spank, S_JOB_ARGV, &count, &program) != ESPANK_SUCCESS || count < 1) {
		say("Slurm does not report the command of the task; the task runs without pinfold");
		return;
	}

	char name[64], why[512], record[4096] = "";
	snprintf(name, sizeof name, "job %u.%u task %u", job, step, task);
	if (!is_our_pinfold(site->binary, why, sizeof why)) {
		say("%s: %s; the task runs without pinfold", name, why);
		return;
	}
	if (site->records && access(site->records, W_OK | X_OK) == 0)
		snprintf(record, sizeof record, "%s/%u.%u.%u.json", site->records, job, step, task);
	else if (site->records)
		say("%s: cannot write a record to %s (%s); that folder needs mode 1777", name, site->records,
		    strerror(errno));

	int ends[2];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0) {
		say("%s: cannot create a socket (%s); the task runs without pinfold", name, strerror(errno));
		return;
	}
	pid_t child = fork();
	if (child == 0) {
		close(ends[0]);
		await_pinfold(spank, ends[1]);
		/* The exec closes the socket, and pinfold sees that. */
		return;
	}
	char variable[64];
	snprintf(variable, sizeof variable, "PINFOLD_WAITING_CHILD=%d:%d", child, ends[0]);
	char **words = command_line(site, policy, name, record, count, program);
	char **variables = with_variable(environment, variable);
	if (child > 0 && words && variables) {
		close(ends[1]);
		fcntl(ends[0], F_SETFD, 0);
		execve(site->binary, words, variables);
	}
	int error = errno;
	if (child > 0) {
		kill(child, SIGKILL);
		while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
			;
		close(ends[0]);
	}
	free(words);
	free(variables);
	say("%s: cannot start pinfold (%s); the task runs without pinfold", name, strerror(error));
}

int slurm_spank_task_init(spank_t spank, int count, char *arguments[])
{
	char *word = NULL;
	uint32_t step = 0;
	if (spank_option_getopt(spank, &option, &word) != ESPANK_SUCCESS ||
	    spank_get_item(spank, S_JOB_STEPID, &step) != ESPANK_SUCCESS)
		return 0;
	/* The script of a job is not placed, but the steps that it starts are. */
	if (step == SLURM_BATCH_SCRIPT || step == SLURM_INTERACTIVE_STEP || step == SLURM_EXTERN_CONT)
		return 0;
	struct site site = read_site(count, arguments);
	char why[512];
	/* Problems of the option or of the site were already reported by srun, sbatch or salloc. */
	const char *policy = policy_of(&site, word, why, sizeof why);
	if (policy)
		split(spank, &site, policy);
	return 0;
}
