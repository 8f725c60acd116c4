/* keep_modules.c - modules that have been loaded stay: for programs whose leaks are looked for.
 *
 * LeakSanitizer names the module of each frame at exit. A module that was unloaded before has no name
 * then, and no suppression can tell Open MPI's losses from ours.
 */
int dlclose(void *handle);

int dlclose(void *handle)
{
    (void)handle;
    return 0;
}
