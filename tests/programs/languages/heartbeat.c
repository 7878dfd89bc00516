/* The native method of Work.java. */
#include "pinfold.h"
#include <jni.h>

JNIEXPORT void JNICALL Java_Work_heartbeat(JNIEnv *environment, jclass class)
{
    (void)environment;
    (void)class;
    pinfold_heartbeat();
}
