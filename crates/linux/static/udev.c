/* A libudev without devices, for the static binary: Debian has no static libudev. hwloc uses libudev only for the model
 * and the serial number of disks, and pinfold does not request disks. Each function answers like the real one on a
 * machine without udev.
 */

#include <stddef.h>

struct udev;
struct udev_device;

struct udev *udev_new(void);
struct udev *udev_unref(struct udev *udev);
struct udev_device *udev_device_new_from_subsystem_sysname(struct udev *udev, const char *subsystem, const char *sysname);
const char *udev_device_get_property_value(struct udev_device *device, const char *key);
struct udev_device *udev_device_unref(struct udev_device *device);

struct udev *udev_new(void) {
    return NULL;
}

struct udev *udev_unref(struct udev *udev) {
    (void) udev;
    return NULL;
}

struct udev_device *udev_device_new_from_subsystem_sysname(struct udev *udev, const char *subsystem, const char *sysname) {
    (void) udev;
    (void) subsystem;
    (void) sysname;
    return NULL;
}

const char *udev_device_get_property_value(struct udev_device *device, const char *key) {
    (void) device;
    (void) key;
    return NULL;
}

struct udev_device *udev_device_unref(struct udev_device *device) {
    (void) device;
    return NULL;
}
