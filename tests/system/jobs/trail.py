"""What jobs have done: lines of a file in the folder of their worker."""


def write(line):
    with open("ran.txt", "a") as file:
        file.write(f"{line}\n")
